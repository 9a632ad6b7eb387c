"""Whether another process of this host still runs, known by more than its number.

A process is told by its host, its namespace, its number and when it started: numbers are used
again, and in another container they are others.
"""

import json
import os
from pathlib import Path

_PROC = Path("/proc")
_STATE, _START = 0, 19  # their places behind the name, as proc(5) counts them less three
_ENDED = ("Z", "X")


def own_mark() -> str:
    """What other processes know this one by; nothing where the kernel does not say."""
    try:
        return json.dumps([_here(), os.getpid(), _fields(os.getpid())[_START]])
    except (OSError, IndexError):
        return ""


def has_ended(mark: str) -> bool:
    """True for a process of this host that runs no more; False where that cannot be known."""
    try:
        here, pid, start = json.loads(mark)
        if here != _here():
            return False
    except (OSError, ValueError):
        return False
    try:
        fields = _fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return fields[_START] != start or fields[_STATE] in _ENDED


def _here() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"


def _fields(pid: int) -> list[str]:
    # A name may hold a parenthesis and spaces; the last one ends it.
    return (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
