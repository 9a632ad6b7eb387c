"""Loading weights: each byte range is read straight into its final tensor, and nothing is mapped.

On CPU `preadv` fills the tensor's own memory; a tensor that is converted, or that lies on a
GPU, passes through a small fixed staging buffer. A failing disk becomes an error with a file
and a tensor, where a memory-mapped file would end the process with SIGBUS
(https://github.com/NVIDIA/TensorRT-LLM/pull/17368).
"""

import ctypes
import math
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from server.weights.files import Shard, WeightFault, count, open_shard
from server.weights.header import TensorEntry
from server.weights.judge import TORCH_NAMES, LoadPlan
from server.weights.progress import Progress
from server.weights.ring import PinnedRing
from server.weights.second_opinion import disagreements

PIECE_BYTES = 16 * 2**20
RING_SLOT_BYTES = 32 * 2**20

# Two threads fill memory faster than one; more gain nothing.
_THREADS = 2
_DTYPES: dict[str, torch.dtype] = {
    stored: getattr(torch, name) for stored, name in TORCH_NAMES.items()
}


class LoadError(Exception):
    """A weight could not be read. `message` is one clause without the path."""

    rule: ClassVar[str] = "SD415"

    def __init__(self, message: str, file: Path, tensor: str | None = None) -> None:
        """Hold the fault, the file, and the tensor that was being read."""
        super().__init__(message)
        self.message = message
        self.file = file
        self.tensor = tensor


class NotFiniteError(LoadError):
    """A weight was read, and holds what is not a number."""

    rule: ClassVar[str] = "SD418"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of one tensor: `into` is flat, `offset` is where its bytes begin in the file."""

    entry: TensorEntry
    descriptor: int
    offset: int
    into: torch.Tensor

    @property
    def stored(self) -> torch.dtype:
        return _DTYPES[self.entry.dtype]

    @property
    def size_bytes(self) -> int:
        return self.into.numel() * self.stored.itemsize


@dataclass(frozen=True, slots=True)
class _Files:
    """A plan with its open files and its destinations."""

    plan: LoadPlan
    flat: Mapping[str, torch.Tensor]
    descriptors: Mapping[Path, int]

    def pieces(self, limit_bytes: int) -> Iterator[_Piece]:
        """The plan cut into pieces of at most `limit_bytes` on disk, in file order."""
        for entry in self.plan.entries:
            width = _DTYPES[entry.dtype].itemsize
            step = limit_bytes // width
            into = self.flat[entry.name]
            for at in range(0, into.numel(), step):
                begin = entry.begin + at * width
                yield _Piece(entry, self.descriptors[entry.file], begin, into[at : at + step])


def load_weights(plan: LoadPlan, tensors: Mapping[str, torch.Tensor], progress: Progress) -> None:
    """Fill `tensors` (name to parameter, contiguous, on one device) as `plan` says.

    Raises LoadError when a file changed since its header was read, is too short, cannot be
    read, is another file to the safetensors package, or holds what is not a finite number; the
    tensors are then filled in part.
    Raises ValueError when `tensors` are not those of the plan, which is a fault of the caller.
    """
    flat = _flat_tensors(plan, tensors)
    with _open_files(plan) as descriptors:
        for entry, said in disagreements(plan):
            told = f"the safetensors package sees it otherwise: {said}"
            raise LoadError(told, entry.file, entry.name)
        files = _Files(plan, flat, descriptors)
        device = next((t.device for t in flat.values()), torch.device("cpu"))
        if device.type == "cuda":
            _load_to_gpu(files.pieces(RING_SLOT_BYTES), device, progress)
        else:
            _load_to_cpu(files.pieces(PIECE_BYTES), progress)
        _require_unchanged(plan, descriptors)
    _require_finite(plan, flat)


def _flat_tensors(plan: LoadPlan, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    entries = {entry.name: entry for entry in plan.entries}
    if odd := sorted(entries.keys() ^ tensors.keys()):
        raise ValueError(f"plan and model differ in {len(odd)} tensors, first: {odd[:3]}")
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != entries[name].shape or not tensor.is_contiguous():
            raise ValueError(f"{name} is {tuple(tensor.shape)}, planned {entries[name].shape}")
    return {name: tensor.detach().view(-1) for name, tensor in tensors.items()}


@contextmanager
def _open_files(plan: LoadPlan) -> Iterator[dict[Path, int]]:
    with ExitStack() as stack:
        descriptors = {}
        for path in plan.shards:
            try:
                descriptor, _ = stack.enter_context(open_shard(path))
            except WeightFault as fault:
                raise LoadError(fault.message, path) from None
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            descriptors[path] = descriptor
        _require_unchanged(plan, descriptors)
        yield descriptors


def _require_unchanged(plan: LoadPlan, descriptors: Mapping[Path, int]) -> None:
    for path, descriptor in descriptors.items():
        now = os.fstat(descriptor)
        seen = Shard(path, now.st_size, now.st_dev, now.st_ino, now.st_mtime_ns)
        if seen != (was := plan.shards[path]):
            sizes = f"{was.size_bytes} bytes then, {seen.size_bytes} now"
            raise LoadError(f"changed after its header was read ({sizes})", path)


def _require_finite(plan: LoadPlan, flat: Mapping[str, torch.Tensor]) -> None:
    """A sum is not finite where one term is not, and costs a fraction of looking at each."""
    for entry in plan.entries:
        values = flat[entry.name]
        if math.isfinite(values.sum()):
            continue
        wrong = int((~torch.isfinite(values)).sum())
        if wrong:
            dtype = str(values.dtype).removeprefix("torch.")
            told = f"holds {count(wrong, 'value')} not finite as {dtype}, stored as {entry.dtype}"
            raise NotFiniteError(told, entry.file, entry.name)


def _load_to_cpu(pieces: Iterator[_Piece], progress: Progress) -> None:
    local = threading.local()

    def fill(piece: _Piece) -> int:
        if piece.into.dtype == piece.stored:
            _read_into(piece, piece.into)
            return piece.size_bytes
        if not hasattr(local, "staging"):
            local.staging = torch.empty(PIECE_BYTES, dtype=torch.uint8)
        staged = local.staging[: piece.size_bytes].view(piece.stored)
        _read_into(piece, staged)
        piece.into.copy_(staged)
        return piece.size_bytes

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="load") as pool:
        try:
            for size_bytes in pool.map(fill, pieces):
                progress.advance(size_bytes)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _load_to_gpu(pieces: Iterator[_Piece], device: torch.device, progress: Progress) -> None:
    ring = PinnedRing(RING_SLOT_BYTES, device)
    for piece in pieces:
        staged = ring.take()[: piece.size_bytes].view(piece.stored)
        _read_into(piece, staged)
        ring.send(staged, piece.into)
        progress.advance(piece.size_bytes)
    ring.finish()


def _read_into(piece: _Piece, memory: torch.Tensor) -> None:
    """Fill `memory` (contiguous, on CPU) with the bytes of `piece`."""
    size_bytes = piece.size_bytes
    view = memoryview((ctypes.c_char * size_bytes).from_address(memory.data_ptr())).cast("B")
    done = 0
    while done < size_bytes:
        try:
            got = os.preadv(piece.descriptor, [view[done:]], piece.offset + done)
        except OSError as error:
            where = f"cannot be read at byte {piece.offset + done}: {error.strerror}"
            raise LoadError(where, piece.entry.file, piece.entry.name) from None
        if got == 0:
            needed = piece.entry.begin + piece.entry.size_bytes
            where = f"ended at byte {piece.offset + done}, the tensor ends at byte {needed}"
            raise LoadError(where, piece.entry.file, piece.entry.name)
        done += got
