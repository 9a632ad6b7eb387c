"""Host memory as a memory source: what torch allocates, and resident pages as a second view."""

import ctypes
import gc
import resource
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from server.memory.facts import DeviceFacts, Machine
from server.memory.host import (
    data_bytes,
    file_bytes,
    high_water_bytes,
    read_host,
    reset_high_water,
    resident_bytes,
    resident_set_bytes,
)
from server.memory.source import Peak, Taken

# What the resident size moves by on its own: heaps that the C library keeps per thread or gives
# back late, and huge pages. Below this it says nothing about a step or about a pool.
RESIDENT_NOISE_BYTES = 64 * 2**20


class StorageCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that operators create inside the block and that still live.

    It does not see scratch memory inside a kernel; the kernel's high-water mark does.
    """

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.live_bytes = 0
        self.peak_bytes = 0
        self._known: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import torch._dynamo for this mode: seconds and memory in mid-measurement."""
        return False

    def __torch_dispatch__(  # noqa: D105  (torch's hook)
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        given = {_key(tensor) for tensor in tree_leaves((args, kwargs)) if self.counts(tensor)}
        result = self.run(func, args, kwargs or {})
        for tensor in tree_leaves(result):
            if self.counts(tensor) and _key(tensor) not in given:
                self._add(tensor)
        return result

    def counts(self, value: object) -> bool:
        """True for a tensor whose storage is counted: not a meta tensor, which has no memory."""
        return is_strided(value) and value.device.type != "meta"

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """The result of one operator."""
        return func(*args, **kwargs)

    def _add(self, tensor: torch.Tensor) -> None:
        storage, key = tensor.untyped_storage(), _key(tensor)
        if key in self._known:
            return
        self._known.add(key)
        self.live_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(storage, self._drop, key, storage.nbytes()).atexit = False

    def _drop(self, key: int, size_bytes: int) -> None:
        self._known.discard(key)
        self.live_bytes -= size_bytes


class HostSource:
    """The host. `facts` are those of `host_facts`; `machine` says where the kernel is asked."""

    noise_bytes = RESIDENT_NOISE_BYTES

    def __init__(self, facts: DeviceFacts, machine: Machine) -> None:
        """Nothing is opened: the host is always there."""
        self.facts = facts
        self._machine = machine
        self.torch_device = torch.device("cpu")
        # Where ranks share the host, each looks at the same moment: until all have looked, none
        # takes what the others count as free.
        self.meet: Callable[[], None] = _nobody
        self._files_before_bytes: int | None = None

    def count_files(self) -> None:
        """From here on the file pages that this process maps are its own: weights.

        The kernel calls them available, because it could drop them; a server could not run then.
        """
        self._files_before_bytes = file_bytes(self._machine.proc)

    def free_bytes(self) -> int:
        """What is available now under every bound."""
        machine = self._machine
        kept_bytes = self._mapped_bytes()
        host = read_host(machine.proc, machine.cgroup, kept_bytes, machine.sharers)
        return host.available_bytes

    def used_by_us_bytes(self) -> int:
        """Anonymous and shared resident pages of this process, and weights that are mapped."""
        return resident_bytes(self._machine.proc) + self._mapped_bytes()

    def _mapped_bytes(self) -> int:
        if self._files_before_bytes is None:
            return 0
        return max(0, file_bytes(self._machine.proc) - self._files_before_bytes)

    @contextmanager
    def taken(self) -> Iterator[Taken]:
        """Storages that torch created and that still live, and the growth of resident pages.

        The first is exact. The second moves by its noise, and is the kernel's word for it that
        the memory is there.
        """
        found = Taken()
        start_bytes = resident_bytes(self._machine.proc)
        with StorageCounter() as counter:
            yield found
        found.allocated_bytes = counter.live_bytes
        found.held_bytes = resident_bytes(self._machine.proc) - start_bytes

    def settle(self) -> None:
        """Collect garbage, and have the C library return what it keeps for later."""
        gc.collect()
        _trim()
        self.meet()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """The kernel promises more than it has, and then ends the process that uses it.

        The process's own limit on private pages has it say no instead.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        self.meet()
        bounds = [data_bytes(self._machine.proc) + self.free_bytes()]
        self.meet()
        bounds += [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
        bound = min(bounds)
        resource.setrlimit(resource.RLIMIT_DATA, (bound if bound < 2**63 else soft, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        """Two views: storages that torch creates, and the kernel's resident high-water mark.

        The first is exact and repeatable, but blind to scratch memory; the second is kept where
        it is larger by more than its noise.
        """
        found = Peak()
        _trim()
        start_bytes = resident_set_bytes(self._machine.proc)
        marked = reset_high_water(self._machine.proc)
        with StorageCounter() as counter:
            yield found
        found.views["torch storages"] = counter.peak_bytes
        grown = high_water_bytes(self._machine.proc) - start_bytes
        if marked and grown > counter.peak_bytes + RESIDENT_NOISE_BYTES:
            found.views["resident pages"] = grown


def _nobody() -> None:
    """No other rank is there to be met."""


def is_strided(value: object) -> TypeGuard[torch.Tensor]:
    """True for a tensor with one storage of its own kind (not sparse)."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _key(tensor: torch.Tensor) -> int:
    """What identifies a storage while it lives."""
    return int(tensor.untyped_storage()._cdata)


def _trim() -> None:
    """glibc keeps freed memory for later; other C libraries have no such call."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
