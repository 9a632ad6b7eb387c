"""What is at a path, as a value: no path, however odd, raises."""

import errno
import os
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from server.limits import pass_on_limit

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL)
_NAMES_SHOWN = 5


class Kind(StrEnum):
    """What a path leads to, links followed."""

    FOLDER = "folder"
    FILE = "file"  # or a FIFO, a device, a socket: whoever opens it says so
    ABSENT = "not there"
    DANGLING = "a link that leads nowhere"
    UNREADABLE = "not accessible"


class Probe(NamedTuple):
    """What is there; `detail` is the system's reason or the text of a dangling link."""

    kind: Kind
    detail: str = ""


def probe(path: Path) -> Probe:
    """Look at `path`. Never raises."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno in _ABSENT:
            return _absent(path)
        return Probe(Kind.UNREADABLE, error.strerror or "unknown error")
    except ValueError:
        # A NUL byte or a surrogate: no file can have such a name.
        return Probe(Kind.ABSENT)
    return Probe(Kind.FOLDER if stat.S_ISDIR(mode) else Kind.FILE)


def _absent(path: Path) -> Probe:
    try:
        return Probe(Kind.DANGLING, os.readlink(path))
    except (OSError, ValueError):
        return Probe(Kind.ABSENT)


def expand_home(text: str, environ: Mapping[str, str]) -> Path:
    """`text` as a path, a leading `~` replaced by the home folder; `~name` stays as it is."""
    if text == "~" or text.startswith("~/"):
        text = (environ.get("HOME") or os.path.expanduser("~")) + text[1:]
    return Path(text)


def names_in(folder: Path) -> tuple[str, ...]:
    """Names of the entries of `folder`, sorted; nothing when it cannot be listed."""
    try:
        return tuple(sorted(os.listdir(folder)))
    except (OSError, ValueError) as error:
        pass_on_limit(error)
        return ()


def content_of(folder: Path) -> str:
    """What a folder holds, in words: up to five names and how many more."""
    names = names_in(folder)
    if not names:
        return "holds nothing that can be listed"
    more = len(names) - _NAMES_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"holds {', '.join(names[:_NAMES_SHOWN])}{rest}"
