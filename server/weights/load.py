"""Loading weights: each byte range is read once, straight into its final tensor.

On a host `preadv` fills the tensor's own memory, and what was read is looked at while it is in
the cache. A tensor that is converted, or that lies on a GPU, passes through a small fixed
staging buffer. A failing disk becomes an error with a file and a tensor, where a memory-mapped
file would end the process with SIGBUS (https://github.com/NVIDIA/TensorRT-LLM/pull/17368).
"""

import ctypes
from collections.abc import Mapping

import torch

from server.weights.arena import Arena
from server.weights.finite import NotFiniteError, Tally
from server.weights.load_plan import TORCH_NAMES, LoadPlan
from server.weights.pages import populate
from server.weights.pieces import (
    LINE_BYTES,
    SLOT_BYTES,
    Held,
    LoadError,
    Piece,
    aliased,
    cut,
    open_files,
    read_into,
    require_unchanged,
)
from server.weights.prefetch import Prefetch
from server.weights.progress import Progress
from server.weights.ring import PinnedRing, Ring
from server.weights.second_opinion import disagreements
from server.weights.team import Team, Worker, thread_count

__all__ = ["LoadError", "NotFiniteError", "load_weights", "tensors_in"]

_DTYPES: dict[str, torch.dtype] = {
    stored: getattr(torch, name) for stored, name in TORCH_NAMES.items()
}
# Each thread holds two pinned buffers of a piece: 128 MiB in all.
_GPU_THREADS = 4
# Advice on files that are closed meanwhile does no harm.
_PATIENCE_S = 0.1


def tensors_in(arena: Arena, plan: LoadPlan, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The plan's tensors as views of `arena`, which has a place of `dtype` for each."""
    return {
        entry.name: torch.frombuffer(arena.view(entry.name), dtype=dtype).view(entry.shape)
        if entry.numel
        else torch.empty(entry.shape, dtype=dtype)
        for entry in plan.entries
    }


def load_weights(
    plan: LoadPlan,
    tensors: Mapping[str, torch.Tensor],
    progress: Progress,
    held: Held | None = None,
    sharers: int = 1,
) -> None:
    """Fill `tensors` (name to parameter, contiguous, on one device) as `plan` says.

    What is in place already by `held` is only looked at.
    `sharers` processes on this host load at once.
    Raises LoadError when a file changed since its header was read, is too short, cannot be
    read, is another file to the safetensors package, or holds what is not a finite number; the
    tensors are then filled in part.
    Raises ValueError when `tensors` are not those of the plan, which is a fault of the caller.
    """
    known = held or Held()
    flat = _flat_tensors(plan, tensors)
    tally = Tally()
    device = next((t.device for t in flat.values()), torch.device("cpu"))
    on_gpu = device.type == "cuda"

    def make_worker() -> Worker[Piece]:
        if on_gpu:
            return _ToGpu(flat, PinnedRing(SLOT_BYTES, device), prefetch)
        return _ToHost(flat, tally, known, prefetch)

    def told(piece: Piece) -> None:
        progress.advance(piece.size_bytes)

    with open_files(plan) as descriptors:
        for entry, said in disagreements(plan):
            seen = f"the safetensors package sees it otherwise: {said}"
            raise LoadError(seen, entry.file, entry.name)
        prefetch = Prefetch(list(cut(plan, descriptors)), lambda _: known)
        threads = min(thread_count(sharers), _GPU_THREADS) if on_gpu else thread_count(sharers)
        _run(Team(make_worker, prefetch, told, threads), prefetch)
        prefetch.release_files()
        require_unchanged(plan, descriptors)
    if on_gpu:
        for entry in plan.entries:
            tally.look(entry, flat[entry.name])
    tally.require_finite(plan, flat)


def _run(team: Team[Piece], prefetch: Prefetch) -> None:
    threads = torch.get_num_threads()
    try:
        prefetch.start()
        team.start()
        team.wait()
    finally:
        prefetch.stop(_PATIENCE_S)
        # Each worker told torch to use one thread, and torch tells that to later threads.
        torch.set_num_threads(threads)


def _flat_tensors(plan: LoadPlan, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    entries = {entry.name: entry for entry in plan.entries}
    if odd := sorted(entries.keys() ^ tensors.keys()):
        raise ValueError(f"plan and model differ in {len(odd)} tensors, first: {odd[:3]}")
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != entries[name].shape or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tuple(tensor.shape)}, planned {entries[name].shape}")
    return {name: tensor.detach().view(-1) for name, tensor in tensors.items()}


class _ToHost:
    """Reads, converts where asked, and looks."""

    def __init__(
        self, flat: Mapping[str, torch.Tensor], tally: Tally, held: Held, prefetch: Prefetch
    ) -> None:
        torch.set_num_threads(1)  # the threads of the team are the parallel ones
        self._flat = flat
        self._tally = tally
        self._held = held
        self._prefetch = prefetch
        self._staging: torch.Tensor | None = None

    def fill(self, piece: Piece) -> None:
        """Put one piece in place, and look at it while it is in the cache.

        In few long calls: each return to Python may wait for another thread.
        """
        stored = _DTYPES[piece.entry.dtype]
        into = _part(self._flat, piece, stored)
        if not self._held.has(piece):
            self._read(piece, into, stored)
            self._prefetch.release((piece,))
        self._tally.look(piece.entry, into)

    def finish(self) -> None:
        """Nothing is pending."""

    def _read(self, piece: Piece, into: torch.Tensor, stored: torch.dtype) -> None:
        populate(into.data_ptr(), into.numel() * into.itemsize)
        if into.dtype == stored:
            read_into(piece, _bytes_of(into))
            return
        if self._staging is None:
            self._staging = torch.empty(SLOT_BYTES, dtype=torch.uint8)
        staged = _staged(self._staging, piece, stored)
        read_into(piece, _bytes_of(staged))
        into.copy_(staged)


class _ToGpu:
    """Reads into pinned memory, from where copies run while the next piece is read."""

    def __init__(self, flat: Mapping[str, torch.Tensor], ring: Ring, prefetch: Prefetch) -> None:
        self._flat = flat
        self._ring = ring
        self._prefetch = prefetch

    def fill(self, piece: Piece) -> None:
        """Read one piece and send it on its way."""
        stored = _DTYPES[piece.entry.dtype]
        staged = _staged(self._ring.take(), piece, stored)
        read_into(piece, _bytes_of(staged))
        self._ring.send(staged, _part(self._flat, piece, stored))
        self._prefetch.release((piece,))

    def finish(self) -> None:
        """Wait until every copy is done."""
        self._ring.finish()


def _part(flat: Mapping[str, torch.Tensor], piece: Piece, stored: torch.dtype) -> torch.Tensor:
    """The elements of the destination that one piece fills."""
    begin = piece.at_bytes // stored.itemsize
    return flat[piece.entry.name][begin : begin + piece.size_bytes // stored.itemsize]


def _staged(buffer: torch.Tensor, piece: Piece, stored: torch.dtype) -> torch.Tensor:
    """The part of a buffer for one piece: it begins where in a cache line the piece does.

    The kernel's copy takes a third longer otherwise (4 GB from the page cache of an EPYC of 2022:
    0.24 s instead of 0.18).
    """
    begin = piece.begin % LINE_BYTES // stored.itemsize * stored.itemsize
    if aliased(buffer.data_ptr() + begin, piece.begin):
        begin += LINE_BYTES
    return buffer[begin : begin + piece.size_bytes].view(stored)


def _bytes_of(memory: torch.Tensor) -> memoryview:
    """A contiguous tensor on the host as writable bytes."""
    size_bytes = memory.numel() * memory.itemsize
    return memoryview((ctypes.c_char * size_bytes).from_address(memory.data_ptr())).cast("B")
