"""Two pinned host buffers between disk and GPU: one is filled while the other one is copied.

Each reading thread has a ring of its own, so that nothing is shared and reads, copies and each
other thread's reads overlap. A fixed ring, because pinned memory that grows with the model has
ended hosts (https://github.com/pytorch/pytorch/issues/95823).
"""

from typing import Protocol

import torch

_SLOTS = 2


class Ring(Protocol):
    """What a reading thread asks of its buffers."""

    def take(self) -> torch.Tensor:
        """A host buffer that no copy reads any more."""

    def send(self, staged: torch.Tensor, into: torch.Tensor) -> None:
        """Copy a part of the buffer taken last; may return before it is done."""

    def finish(self) -> None:
        """Wait until every copy is done."""


class PinnedRing:
    """`take` a host buffer, fill it, `send` it; at most two copies are under way.

    Falls back to pageable buffers where pinning fails (a memory-locked limit, say): a copy
    from those is done before `send` returns, so the order of use stays right.
    """

    def __init__(self, slot_bytes: int, device: torch.device) -> None:
        """Allocate two buffers of `slot_bytes` and a stream on `device`, for one thread."""
        torch.cuda.set_device(device)  # each thread starts out on device 0
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._slots = [_host_buffer(slot_bytes) for _ in range(_SLOTS)]
        self._sent = [_event() for _ in range(_SLOTS)]
        self._next = 0
        # The destinations were allocated on the current stream.
        self._stream.wait_stream(torch.cuda.current_stream(device))

    def take(self) -> torch.Tensor:
        """The next buffer, once its last copy is done. [slot_bytes] uint8 on CPU."""
        self._sent[self._next].synchronize()
        return self._slots[self._next]

    def send(self, staged: torch.Tensor, into: torch.Tensor) -> None:
        """Copy `staged`, a part of the buffer taken last, into the GPU tensor `into`."""
        with torch.cuda.stream(self._stream):
            if staged.dtype == into.dtype:
                into.copy_(staged, non_blocking=True)
            else:
                # Converted on the GPU: a conversion on the host would need a second buffer.
                into.copy_(staged.to(into.device, non_blocking=True))
            self._sent[self._next].record(self._stream)
        self._next = (self._next + 1) % _SLOTS

    def finish(self) -> None:
        """Wait until every copy is done."""
        self._stream.synchronize()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]


def _host_buffer(size_bytes: int) -> torch.Tensor:
    try:
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
    except RuntimeError:
        return torch.empty(size_bytes, dtype=torch.uint8)
