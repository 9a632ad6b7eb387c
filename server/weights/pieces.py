"""A load plan as pieces: which bytes of which file belong where. Standard library only.

The same pieces are read before torch is there and after, so their numbers name them.
"""

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from server.config.geometry import DTYPE_BYTES
from server.weights.entries import TensorEntry
from server.weights.files import Shard, WeightFault, open_shard
from server.weights.load_plan import LoadPlan

PIECE_BYTES = 16 * 2**20
# What a process has open beside its shards: libraries, devices, sockets.
_OTHER_FILES = 256


class LoadError(Exception):
    """A weight could not be read. `message` is one clause without the path."""

    rule: ClassVar[str] = "SD415"

    def __init__(self, message: str, file: Path, tensor: str | None = None) -> None:
        """Hold the fault, the file, and the tensor that was being read."""
        super().__init__(message)
        self.message = message
        self.file = file
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one tensor, of whole elements: `size_bytes` from byte `at_bytes` of the tensor.

    `number` counts the pieces of a plan, `descriptor` is the open file.
    """

    number: int
    entry: TensorEntry
    descriptor: int
    at_bytes: int
    size_bytes: int


def cut(plan: LoadPlan, descriptors: Mapping[Path, int]) -> Iterator[Piece]:
    """The plan in pieces of at most PIECE_BYTES on disk, in file order."""
    width = DTYPE_BYTES[plan.dtype]
    step = PIECE_BYTES // width * width
    number = 0
    for entry in plan.entries:
        for at in range(0, entry.size_bytes, step):
            size_bytes = min(step, entry.size_bytes - at)
            yield Piece(number, entry, descriptors[entry.file], at, size_bytes)
            number += 1


@contextmanager
def open_files(plan: LoadPlan) -> Iterator[dict[Path, int]]:
    """The plan's files, open. Raises LoadError when one is not what its header was read from."""
    _allow_files(len(plan.shards))
    with ExitStack() as stack:
        descriptors = {}
        for path in plan.shards:
            try:
                descriptor, _ = stack.enter_context(open_shard(path))
            except WeightFault as fault:
                raise LoadError(fault.message, path) from None
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            descriptors[path] = descriptor
        require_unchanged(plan, descriptors)
        yield descriptors


def _allow_files(count: int) -> None:
    """Raise this process's own limit where a checkpoint of so many shards could reach it.

    1,024 is common, and a thousand shards are too: all are open at once, ahead and in the load.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def require_unchanged(plan: LoadPlan, descriptors: Mapping[Path, int]) -> None:
    """Raises LoadError when a file is not as it was when its header was read."""
    for path, descriptor in descriptors.items():
        now = os.fstat(descriptor)
        seen = Shard(path, now.st_size, now.st_dev, now.st_ino, now.st_mtime_ns)
        if seen != (was := plan.shards[path]):
            what = f"{was.size_bytes} bytes then, {seen.size_bytes} now"
            if seen.size_bytes == was.size_bytes:
                what = "of the same size, but written again or replaced"
            raise LoadError(f"changed after its header was read ({what})", path)


def read_into(piece: Piece, memory: memoryview, skip_bytes: int = 0) -> None:
    """Fill `memory` (flat bytes) from the piece, after its first `skip_bytes`.

    Raises LoadError when the storage fails or the file ends early.
    """
    at = piece.at_bytes + skip_bytes
    if not piece.entry.pitch_bytes:
        _read(piece, memory, piece.entry.begin + at)
        return
    row_bytes = piece.entry.size_bytes // piece.entry.shape[0]
    done = 0
    while done < len(memory):
        row, column_bytes = divmod(at + done, row_bytes)
        size_bytes = min(row_bytes - column_bytes, len(memory) - done)
        begin = piece.entry.begin + row * piece.entry.pitch_bytes + column_bytes
        _read(piece, memory[done : done + size_bytes], begin)
        done += size_bytes


def _read(piece: Piece, memory: memoryview, begin: int) -> None:
    """Fill `memory` from byte `begin` of the file on."""
    entry, done = piece.entry, 0
    while done < len(memory):
        try:
            got = os.preadv(piece.descriptor, [memory[done:]], begin + done)
        except OSError as error:
            where = f"cannot be read at byte {begin + done}: {error.strerror}"
            raise LoadError(where, entry.file, entry.name) from None
        if got == 0:
            where = f"ended at byte {begin + done}, the tensor ends at byte {entry.end}"
            raise LoadError(where, entry.file, entry.name)
        done += got
