"""The activation peak before anything is loaded: the profile's own steps, run without memory.

Models, pool and steps are the real ones, on torch's meta device: each operator gives a tensor
with its shape and no bytes, and the storages that would live are counted as on a host
(`server/memory/host_source.py`). On a CPU that is what the profile measures as "torch storages".

On CUDA it is a prediction. There attention that is masked or in float32 takes another kernel, which
stores its rows batch by batch, so that they are copied once more. For it torch makes a mask again
in the compute dtype, once more where its rows must be padded to 16, with a boolean in between
(pytorch/pytorch aten/src/ATen/native/transformers/attention.cpp). That is billed. Not billed are
the allocator's rounding (512 bytes each), the split sums of flash attention (some MiB), and what
stays after a first step (cuBLAS' workspace, 8 to 32 MiB), which a boot counts as runtime.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from server.config.records import Backbone, BlockDraft, TargetConfig
from server.memory.facts import DeviceFacts, DeviceKind
from server.memory.host_source import StorageCounter, is_strided
from server.memory.profile import Models, PhasePeak, Workload, run_once
from server.memory.shapes import ATTENTION, RULES
from server.memory.source import Peak, Taken
from server.model.build import build_drafter, build_target, materialise
from server.model.parallel import Group
from server.weights.parts import WHOLE, Share

VIEW = "predicted storages"

# Layers that are run: the first one, and one that follows another. All others repeat the second,
# and of a layer nothing stays but its rows: a test compares this with all layers.
LAYERS = 2

_MASK_ALIGNMENT = 16
_MASK = 3  # its place among the operands of attention


class MetaCounter(StorageCounter):  # type: ignore[no-untyped-call]
    """Counts the storages of meta tensors, with attention as CUDA does it or as a CPU does."""

    def __init__(self, cuda: bool) -> None:
        """Start at zero."""
        super().__init__()
        self._cuda = cuda

    def counts(self, value: object) -> bool:
        """True for a meta tensor."""
        return is_strided(value) and value.device.type == "meta"

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """The operator's result, without its arithmetic."""
        if func is ATTENTION and self._cuda:
            return self._attention(args[0], args[_MASK] if len(args) > _MASK else None)
        rule = RULES.get(func)
        found = None if rule is None else rule(args, kwargs)
        return func(*args, **kwargs) if found is None else found

    def _attention(self, query: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None and query.dtype is not torch.float32:
            return torch.empty_like(query)
        if mask is not None:
            self._mask_anew(query, mask)
        batch, heads, rows, head_dim = query.shape
        return query.new_empty(batch, rows, heads, head_dim).transpose(1, 2)

    def _mask_anew(self, query: Tensor, mask: Tensor) -> None:
        copies = 2 if mask.shape[-1] % _MASK_ALIGNMENT else 1
        inside_bytes = mask.numel() * (copies * query.element_size() + mask.element_size())
        self.peak_bytes = max(self.peak_bytes, self.live_bytes + inside_bytes)


class MetaSource:
    """A device that holds nothing. `facts` are those of the device that is stood in for."""

    noise_bytes = 0

    def __init__(self, facts: DeviceFacts) -> None:
        """Nothing is opened."""
        self.facts = facts
        self.torch_device = torch.device("meta")

    def free_bytes(self) -> int:
        """All of it: the step is run before anything else is there."""
        return self.facts.total_bytes or 0

    def used_by_us_bytes(self) -> int:
        """Nothing."""
        return 0

    @contextmanager
    def taken(self) -> Iterator[Taken]:
        """Nothing."""
        yield Taken()

    def settle(self) -> None:
        """There is nothing to give back."""

    def guard(self) -> AbstractContextManager[None]:
        """Nothing can run out."""
        return nullcontext()

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        """The storages that would live at once."""
        found = Peak()
        with MetaCounter(self.facts.kind is DeviceKind.CUDA) as counter:
            yield found
        found.views[VIEW] = counter.peak_bytes


class Pretended(Group):
    """A rank whose others need not be there: it takes their part of each result for its own."""

    def _add_up(self, values: Tensor) -> None:
        """The sum has the size of each of its terms."""

    def _exchange(self, parts: list[Tensor], own: Tensor) -> None:
        """There is room for every part, and nothing in it."""


Config = TypeVar("Config", bound=Backbone)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both models, and which part of them one rank computes."""

    target: TargetConfig
    draft: BlockDraft | None
    share: Share = WHOLE


def predict(
    facts: DeviceFacts, pair: Pair, work: Workload, dtype: str, layers: int = LAYERS
) -> tuple[PhasePeak, ...]:
    """The peak of every phase of `work` on a device such as `facts` names, in bytes.

    `layers` is how many of each model are run.
    """
    target, draft, group = pair.target, pair.draft, Pretended(pair.share, torch.device("meta"))
    drafter = None
    if draft is not None:
        drafter = build_drafter(_shallow(draft, layers), target.hidden_size, group)
    models = Models(build_target(_shallow(target, layers), group), drafter)
    source = MetaSource(facts)
    for module in (models.target, models.drafter):
        if module is not None:
            materialise(module, source.torch_device, getattr(torch, dtype))
    return run_once(source, models, work)


def _shallow(config: Config, layers: int) -> Config:
    """`config` with no more than `layers` layers."""
    return config.model_copy(update={"num_hidden_layers": min(layers, config.num_hidden_layers)})
