"""Where the planner's integers come from once torch is there: one protocol, any device."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from server.memory.facts import DeviceFacts

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class Peak:
    """The growth of memory inside a measured block, filled in when the block ends.

    `views` names each independent measurement; the bill takes the largest.
    """

    views: dict[str, int] = field(default_factory=dict)

    @property
    def growth_bytes(self) -> int:
        """The largest view, never below 0."""
        return max(0, *self.views.values()) if self.views else 0


@dataclass(slots=True)
class Taken:
    """What a block took and kept, filled in when the block ends.

    `allocated_bytes`: what torch's allocator handed out. `held_bytes`: by how much more the
    kernel says this process holds, within the source's noise; None where there is no such view.
    """

    allocated_bytes: int = 0
    held_bytes: int | None = None


class MemorySource(Protocol):
    """One opened device. All sizes are bytes."""

    @property
    def facts(self) -> DeviceFacts:
        """The device as it is known now, with exact totals."""

    @property
    def torch_device(self) -> "torch.device":
        """The device as torch names it."""

    def free_bytes(self) -> int:
        """What is free now."""

    def used_by_us_bytes(self) -> int:
        """What this process holds of the device now."""

    @property
    def noise_bytes(self) -> int:
        """What `used_by_us_bytes` moves by on its own; smaller differences say nothing."""

    def taken(self) -> AbstractContextManager[Taken]:
        """Measure what is taken within the block and still held at its end."""

    def settle(self) -> None:
        """Give back what is cached but not used, so that the figures mean something."""

    def guard(self) -> AbstractContextManager[None]:
        """Within the block, memory beyond what is free gives an error, whatever the device."""

    def peak(self) -> AbstractContextManager[Peak]:
        """Measure how far memory grows above its start within the block."""


def others_bytes(source: MemorySource) -> int:
    """What others hold of the device now."""
    return (source.facts.total_bytes or 0) - source.free_bytes() - source.used_by_us_bytes()
