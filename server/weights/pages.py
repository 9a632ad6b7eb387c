"""Fresh memory made present by one call, outside Python's lock. Standard library only.

A read into fresh memory takes a page fault for every page. Measured on a shared virtual machine
with two threads, asking for all pages of a piece first (MADV_POPULATE_WRITE) made a load of
1.6 GB a fifth faster than leaving it to the faults. Huge pages (MADV_HUGEPAGE) halved the speed
there: the host takes free memory back, and whole huge pages are what it takes.
"""

import ctypes
import mmap
from contextlib import suppress

_POPULATE_WRITE = 23  # Linux 5.14; Python has no name for it
_LIBRARY = ctypes.CDLL(None)


def populate(address: int, size_bytes: int) -> None:
    """Make the whole pages within the range present and writable, as a write would.

    Changes no content. Where the kernel cannot, nothing happens: the read faults them in. Nor
    where the first and the last page are there already: asking would walk all of them for nothing,
    which costs a fifth of the copy.
    """
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + size_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end and not (present(begin) and present(end - mmap.PAGESIZE)):
        where = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        with suppress(AttributeError):  # a C library without it
            _LIBRARY.madvise(*where, _POPULATE_WRITE)


def present(page: int) -> bool:
    """True when the page at this address is in memory; False also where the kernel cannot tell."""
    told = ctypes.c_ubyte()
    with suppress(AttributeError):
        where = ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE)
        return _LIBRARY.mincore(*where, ctypes.byref(told)) == 0 and bool(told.value & 1)
    return False
