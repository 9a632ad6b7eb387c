"""Opening weight files: regular files only, each error kept apart, never mapped.

A file that is missing, one that may not be read and a link that dangles are different faults
with different remedies (https://github.com/safetensors/safetensors/issues/782).
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.limits import pass_on_limit

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NAMES_SHOWN = 10
_NAME_CHARS = 120


class WeightFault(Exception):
    """One fault of a weight file: the rule, one clause, and where in the header or index.

    `message` reads on after the file's name. `fix` replaces the rule's general advice.
    """

    def __init__(
        self, rule: str, message: str, pointer: str | None = None, fix: str | None = None
    ) -> None:
        """Hold one fault; `rule` is an id of the registry."""
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.pointer = pointer
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Shard:
    """A weight file as it was when its header was read; a later read compares."""

    path: Path
    size_bytes: int
    device: int
    inode: int
    mtime_ns: int


@contextmanager
def open_shard(path: Path) -> Iterator[tuple[int, Shard]]:
    """Open a regular file for reading: (descriptor, stamp).

    Raises WeightFault: SD406 when it is not there or a link to it dangles, SD414 when it may
    not be read or is no regular file.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        pass_on_limit(error)
        raise _open_fault(path, error) from None
    try:
        yield descriptor, _stamp(path, descriptor)
    finally:
        os.close(descriptor)


def read_range(descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
    """Up to `size_bytes` from `offset_bytes`; fewer only at the end of the file.

    Raises WeightFault SD414 when the storage fails.
    """
    parts: list[bytes] = []
    try:
        while size_bytes and (part := os.pread(descriptor, size_bytes, offset_bytes)):
            parts.append(part)
            size_bytes -= len(part)
            offset_bytes += len(part)
    except OSError as error:
        raise WeightFault("SD414", f"cannot be read: {error.strerror}") from None
    return b"".join(parts)


def shown(name: str) -> str:
    """A tensor or file name, cut to a length that fits a message."""
    return name if len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}..."


def name_list(names: Sequence[str]) -> str:
    """At most ten names, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(map(shown, names[:_NAMES_SHOWN])) + (f" and {more} more" if more > 0 else "")


def count(number: int, noun: str) -> str:
    """`number` and `noun`, in the plural where there is not just one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _open_fault(path: Path, error: OSError | ValueError) -> WeightFault:
    if not isinstance(error, OSError):
        return WeightFault("SD406", f"is not a possible file name: {error}")
    if error.errno not in _ABSENT:
        return WeightFault("SD414", f"cannot be opened: {error.strerror}")
    try:
        link = os.readlink(path)
    except OSError:
        return WeightFault("SD406", "is not there")
    fix = "mount the whole cache, not the snapshot folder alone, or run the download again"
    return WeightFault("SD406", f"is a dangling link to {link}", fix=fix)


def _stamp(path: Path, descriptor: int) -> Shard:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "a FIFO, socket or device"
        raise WeightFault("SD414", f"is {what}, a regular file is needed")
    return Shard(path, status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns)
