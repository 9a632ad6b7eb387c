"""The bytes of an untrusted file: no path may raise, hang or take much memory."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from server.config.json_faults import FaultKind, JsonFault, Stop
from server.limits import pass_on_limit

_CHUNK_BYTES = 2**20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


def read_bytes(path: Path, limit_bytes: int) -> tuple[bytes | None, tuple[JsonFault, ...]]:
    """The bytes of a regular file of at most `limit_bytes`, or the fault.

    Raises nothing but the OSError of a limit on open files.
    """
    try:
        return _read_bytes(path, limit_bytes), ()
    except Stop as stop:
        return None, (stop.fault,)


def _read_bytes(path: Path, limit_bytes: int) -> bytes:
    try:
        handle = os.open(path, _FLAGS)
    except ValueError as error:
        raise Stop(FaultKind.NOT_FOUND, f"not a possible file name: {error}") from None
    except OSError as error:
        pass_on_limit(error)
        kind = FaultKind.NOT_FOUND if error.errno in _NOT_FOUND else FaultKind.UNREADABLE
        raise Stop(kind, f"cannot be opened: {error.strerror}") from None
    try:
        _require_regular(os.fstat(handle), limit_bytes)
        return _read_all(handle, limit_bytes)
    except OSError as error:
        raise Stop(FaultKind.UNREADABLE, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _require_regular(status: os.stat_result, limit_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = next((name for test, name in _KINDS if test(status.st_mode)), "not a file")
        raise Stop(FaultKind.UNREADABLE, f"is {what}, a regular file is needed")
    if status.st_size > limit_bytes:
        raise Stop(FaultKind.INVALID, _too_large(f"{status.st_size}", limit_bytes))


def _read_all(handle: int, limit_bytes: int) -> bytes:
    # The size from fstat is not trusted: files under /proc say 0, others may grow.
    chunks: list[bytes] = []
    total = 0
    while chunk := os.read(handle, _CHUNK_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        if total > limit_bytes:
            raise Stop(FaultKind.INVALID, _too_large(f"more than {limit_bytes}", limit_bytes))
    return b"".join(chunks)


def _too_large(found: str, limit_bytes: int) -> str:
    return f"holds {found} bytes, at most {limit_bytes} are read"
