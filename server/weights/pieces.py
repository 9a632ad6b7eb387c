"""A load plan as pieces: which bytes of which file belong where. Standard library only.

The same pieces are read before torch is there and after, so their numbers name them.
"""

import os
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from server.config.geometry import DTYPE_BYTES
from server.weights.entries import TensorEntry
from server.weights.files import Shard, WeightFault, open_shard
from server.weights.load_plan import LoadPlan

# A buffer for one piece, and a power of two, to which pinned memory is rounded up. A page less is
# read: where in a page the piece begins does not matter then.
SLOT_BYTES = 16 * 2**20
PIECE_BYTES = SLOT_BYTES - 4096
LINE_BYTES = 64  # of a processor's cache, and its widest vector
_PAGE_BYTES = 4096
_MOST_VIEWS = 512  # of one read; Linux takes 1,024
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

    @property
    def begin(self) -> int:
        """Where it begins in its file; of rows that are read in part, the first one."""
        return self.entry.begin + self.at_bytes

    @property
    def end(self) -> int:
        """The byte of the file after it."""
        return self.begin + self.size_bytes


@dataclass(slots=True)
class Held:
    """What is known of a plan's pieces, by their numbers.

    `filled` are in their final place, or all where the files are `mapped`. `brought` were not in
    the page cache when they were looked for, so this process has them read; unless `keep_cached`,
    each is dropped from there once it is in its place.
    """

    filled: set[int] = field(default_factory=set)
    brought: set[int] = field(default_factory=set)
    mapped: bool = False
    keep_cached: bool = True

    def has(self, piece: Piece) -> bool:
        """True when the piece is in its final place."""
        return self.mapped or piece.number in self.filled


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


def aliased(address: int, begin: int) -> bool:
    """True where a read from byte `begin` of a file to `address` would be slow.

    That is where the copy lies in its page as its source does in its own, or just behind: AMD's
    processors then take one for the other. On one of 2022 a read took 3.5 times as long
    (https://sourceware.org/bugzilla/show_bug.cgi?id=30994, apache/opendal issue 3665).
    """
    return (address - begin) % _PAGE_BYTES < LINE_BYTES


def batches(pieces: Iterable[Piece], most_bytes: int) -> Iterator[tuple[Piece, ...]]:
    """The pieces, those together that lie one behind the other in a file, up to `most_bytes`."""
    held: list[Piece] = []
    for piece in pieces:
        if held and not _follows(held, piece, most_bytes):
            yield tuple(held)
            held = []
        held.append(piece)
    if held:
        yield tuple(held)


def _follows(held: list[Piece], piece: Piece, most_bytes: int) -> bool:
    last, whole = held[-1], not (piece.entry.pitch_bytes or held[-1].entry.pitch_bytes)
    near = last.descriptor == piece.descriptor and last.end == piece.begin
    return whole and near and len(held) < _MOST_VIEWS and piece.end - held[0].begin <= most_bytes


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


def read_batch(batch: Sequence[Piece], memory: Sequence[memoryview]) -> None:
    """Fill `memory`, a view for each piece of a batch, in one call. Raises LoadError."""
    got = 0
    if len(batch) > 1:
        with suppress(OSError):  # told below, with the tensor that has it
            got = os.preadv(batch[0].descriptor, memory, batch[0].begin)
    for piece, view in zip(batch, memory, strict=True):
        done, got = min(got, len(view)), max(0, got - len(view))
        read_into(piece, view[done:], done)


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
