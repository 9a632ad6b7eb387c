"""Writes the report to a file: whole or not at all."""

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CLOEXEC
_TRIES = 100
OF_A_CHECKPOINT = "a file of a checkpoint is there, which a report would destroy"


def write_report(path: Path, text: str) -> str | None:
    """Write `text` and a newline to `path` in one step; the reason in words when that fails.

    A sibling file is written and renamed, so a reader sees the old report or the new one. What is
    not a plain file (a pipe, /dev/stderr, the mounted /dev/termination-log of a Kubernetes pod)
    cannot be replaced, and is written in place.
    """
    data = f"{text}\n".encode("utf-8", "backslashreplace")
    if is_of_a_checkpoint(path):
        return OF_A_CHECKPOINT
    try:
        if _is_special(path):
            _write_in_place(path, data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except (OSError, ValueError) as error:
        return _reason(error)
    return None


def why_unwritable(path: Path) -> str | None:
    """Why `path` could not be written, or None. Nothing is changed; asked before a long load."""
    try:
        if path.is_dir():
            return os.strerror(errno.EISDIR)
        if is_of_a_checkpoint(path):
            return OF_A_CHECKPOINT
        if _is_special(path):
            return None if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
        place = Path(os.path.realpath(path))
        if not place.parent.is_dir():
            number = errno.ENOTDIR if place.parent.exists() else errno.ENOENT
            return os.strerror(number)
        allowed = os.access(place.parent, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        return _reason(error)
    return None if allowed else os.strerror(errno.EACCES)


def is_of_a_checkpoint(path: Path) -> bool:
    """True for a file that is there and has a name by which models are loaded."""
    try:
        names = (path.name, os.path.basename(os.path.realpath(path)))
        named = any(name == "config.json" or ".safetensors" in name for name in names)
        return named and path.is_file()
    except (OSError, ValueError):
        return False


def _is_special(place: Path) -> bool:
    """True for what exists and is neither a plain file nor a folder."""
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(place: Path, data: bytes) -> None:
    """Write a sibling and rename it. No sibling is left behind. Raises OSError."""
    number, sibling = _open_sibling(place)
    try:
        _write_all(number, data, keep=True)
        os.replace(sibling, place)
    except OSError as error:
        sibling.unlink(missing_ok=True)
        # A file that is a mount point can be written but not replaced.
        if error.errno != errno.EBUSY:
            raise
        _write_in_place(place, data)
    except BaseException:
        sibling.unlink(missing_ok=True)
        raise


def _open_sibling(place: Path) -> tuple[int, Path]:
    """A new file beside `place`, open for writing. Raises OSError."""
    for attempt in range(_TRIES):
        sibling = place.parent / f".report-{os.getpid()}-{attempt}.tmp"
        try:
            return os.open(sibling, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666), sibling
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))


def _write_in_place(place: Path, data: bytes) -> None:
    """Write to what is there. A pipe that nobody reads is a fault, not a hang. Raises OSError."""
    _write_all(os.open(place, _FLAGS | os.O_TRUNC | os.O_NONBLOCK), data)


def _write_all(number: int, data: bytes, keep: bool = False) -> None:
    """Write all of `data` to an open file and close it. Raises OSError.

    With `keep` it is on the disk then: a name that outlives a power cut has its content.
    """
    try:
        os.set_blocking(number, True)
        left = memoryview(data)
        while left:
            left = left[os.write(number, left) :]
        if keep:
            os.fsync(number)
    finally:
        os.close(number)


def _reason(error: OSError | ValueError) -> str:
    """What went wrong, without the path: the caller names it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
