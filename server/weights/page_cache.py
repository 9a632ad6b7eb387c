"""What the kernel keeps of a file: is a piece there, and letting it go. Standard library only.

A load that leaves its files in the page cache has the weights in memory twice. Where there is room
for that, the next boot reads from memory. Where there is none, the KV pool takes those pages again,
and each page that was fresh has cost as much as its copy: on a shared virtual machine with two
cores a cold load of 4 GB took 2.1 to 2.9 s when the pages were given back at once, else 4.4 to 6 s.
"""

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from server.weights.pieces import Piece

_SYSFS = Path("/sys")
_UNKNOWN_BYTES = 2**20


def holds(piece: Piece) -> bool | None:
    """True when the piece is in the page cache, by its middle and its end; None: nobody can tell.

    Overlay and network file systems, and kernels before 4.14, do not.
    """
    try:
        places = (piece.begin + piece.size_bytes // 2, piece.end - 1)
        return all(_is_there(piece.descriptor, at) for at in places)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None


def expect(piece: Piece) -> None:
    """Have the disk begin with the piece. A file system that takes no advice is let be."""
    with suppress(OSError):
        step_bytes = _step_bytes(piece.descriptor)
        for at in range(piece.begin, piece.end, step_bytes):
            size_bytes = min(step_bytes, piece.end - at)
            os.posix_fadvise(piece.descriptor, at, size_bytes, os.POSIX_FADV_WILLNEED)


def drop(descriptor: int, begin: int = 0, size_bytes: int = 0) -> None:
    """Let the kernel forget the whole pages of this range of a file; without one, all of them."""
    with suppress(OSError):
        os.posix_fadvise(descriptor, begin, size_bytes, os.POSIX_FADV_DONTNEED)


@lru_cache
def window_bytes(device: int, sysfs: Path = _SYSFS) -> int:
    """How much one call has the kernel read of a file on `device`, however much it asks for.

    The larger of the device's largest request and of the file's read-ahead, which is twice the
    device's where a file is read in order (`force_page_cache_ra` in torvalds/linux
    `mm/readahead.c`); 1 MiB where sysfs does not tell it.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    disk = sysfs / "dev/block" / number
    for folder in (disk / "queue", disk / "../queue", sysfs / "class/bdi" / number):
        if largest := max(_size(folder / "max_sectors_kb"), 2 * _size(folder / "read_ahead_kb")):
            return largest
    return _UNKNOWN_BYTES


def _size(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text()) * 1024
    return 0


def _is_there(descriptor: int, at: int) -> bool:
    return os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT) == 1


def _step_bytes(descriptor: int) -> int:
    return window_bytes(os.fstat(descriptor).st_dev)
