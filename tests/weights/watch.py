"""Proof of what a gate reads: where, by its own calls, and that the kernel counts no byte more."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from server.weights.header import HEADER_LIMIT_BYTES

_listeners: list["Reads"] = []


@dataclass
class Reads:
    """Ranges read per inode as (begin, end), files opened by name, and uncounted bytes.

    `unseen_bytes`: what the kernel counts as read by this process beyond these ranges.
    """

    ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    mapped: int = 0
    unseen_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(end - begin for parts in self.ranges.values() for begin, end in parts)

    def weight_bytes(self, path: Path) -> int:
        """Bytes read of `path` behind its header."""
        begin = data_begin(path)
        parts = self.ranges.get(path.stat().st_ino, [])
        return sum(max(0, end - max(begin, start)) for start, end in parts)


def data_begin(path: Path) -> int:
    """Where the weights of a file begin: behind its header, or nowhere if it has none."""
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    is_header = start[8:] == b"{" and length <= HEADER_LIMIT_BYTES
    return 8 + length if is_header else path.stat().st_size


@contextmanager
def watched() -> Iterator[Reads]:
    """Record every read of this process until the end of the block."""
    reads = Reads()
    pread, read = os.pread, os.read
    before, sample_bytes = _kernel_count(read)
    _listeners.append(reads)
    try:
        with (
            patch.object(os, "pread", _positioned(reads, pread)),
            patch.object(os, "read", _sequential(reads, read)),
        ):
            yield reads
    finally:
        _listeners.remove(reads)
    after, _ = _kernel_count(read)
    reads.unseen_bytes = after - before - sample_bytes - reads.total_bytes


def _positioned(
    reads: Reads, pread: Callable[[int, int, int], bytes]
) -> Callable[[int, int, int], bytes]:
    def watch(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        _note(reads, descriptor, offset, len(data))
        return data

    return watch


def _sequential(reads: Reads, read: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
    def watch(descriptor: int, size: int) -> bytes:
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        data = read(descriptor, size)
        _note(reads, descriptor, offset, len(data))
        return data

    return watch


def _note(reads: Reads, descriptor: int, offset: int, size: int) -> None:
    inode = os.fstat(descriptor).st_ino
    reads.ranges.setdefault(inode, []).append((offset, offset + size))


def _kernel_count(read: Callable[[int, int], bytes]) -> tuple[int, int]:
    """The bytes that this process has read, as the kernel counts, and what asking costs."""
    descriptor = os.open("/proc/self/io", os.O_RDONLY)
    try:
        text = read(descriptor, 4096)
    finally:
        os.close(descriptor)
    found = re.search(rb"rchar: (\d+)", text)
    assert found is not None
    return int(found[1]), len(text)


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    for reads in _listeners:
        if event == "open":
            reads.opened.append(str(arguments[0]))
        elif event == "mmap.__new__":
            reads.mapped += 1


sys.addaudithook(_listen)
