"""Other instances of this server on the same device. Standard library only.

Each instance that is up holds a locked file. The kernel takes the lock back when the process
ends, however it ends, so a file that can be locked is one that a dead instance left.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from server.cache import cache_folder
from server.config.rules import finding
from server.findings import Location, Outcome, outcome_of
from server.memory.units import bytes_text

# A file of ours has some 200.
_MOST_BYTES = 4096


class Instance(NamedTuple):
    """One instance: its process, its device as it is shown, when it came (UTC), its limit."""

    pid: int
    device: str
    since: str
    limit_bytes: int


class Presence:
    """The file of one instance that is up; `leave` takes it away."""

    def __init__(self, path: Path, instance: Instance) -> None:
        """Write `instance` to `path`. Raises OSError."""
        unseen = path.with_suffix(".new")
        self._path = path
        self._file = unseen.open("x")
        try:
            # Locked before it can be seen: nobody takes it for one that was left.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            json.dump(instance._asdict(), self._file)
            self._file.flush()
            unseen.rename(path)
        except BaseException:
            unseen.unlink(missing_ok=True)
            self._file.close()
            raise

    def leave(self) -> None:
        """Take the file away, and its lock."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def instances_folder(environ: Mapping[str, str], device: str) -> Path | None:
    """Where the instances on `device` keep their files; None where this user has no folder.

    SERVER_CACHE_DIR, else XDG_RUNTIME_DIR, else the user's cache, where machines may share it.
    """
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and not environ.get("SERVER_CACHE_DIR"):
        base = runtime / "draftgate"
    elif {"SERVER_CACHE_DIR", "XDG_CACHE_HOME", "HOME"} & environ.keys():
        base = cache_folder(environ)
    else:
        return None
    return base / "instances" / os.uname().nodename / device


def arrive(folder: Path, own: Instance) -> tuple[Presence, Outcome]:
    """Make `own` known in `folder`; SD611 for each instance that is there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{own.pid}-{time.time_ns()}.json"
    # Seen before it looks: of two that come at once, one at least sees the other.
    presence = Presence(path, own)
    told = [
        f"process {other.pid} has been on {other.device} since {other.since}, with a limit of "
        f"{bytes_text(other.limit_bytes)}"
        for other in _others(folder, path)
    ]
    where = Location("device", value=own.device)
    return presence, outcome_of("SD611", [finding("SD611", message, where) for message in told])


def _others(folder: Path, own: Path) -> Iterator[Instance]:
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError:
        return
    for path in paths:
        if path == own:
            continue
        try:
            # Whatever lies in a folder that others may write: a pipe, a link to another file.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if _is_left(descriptor):
                    path.unlink()
                else:
                    yield _read(file.read(_MOST_BYTES))
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue  # gone by now, another user's, or of another version


def _read(text: bytes) -> Instance:
    told = json.loads(text)
    since, limit_bytes = str(told["since"]), int(told["limit_bytes"])
    return Instance(int(told["pid"]), str(told["device"]), since, limit_bytes)


def _is_left(descriptor: int) -> bool:
    """True where nobody holds the lock of an open file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
