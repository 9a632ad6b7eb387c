"""Pages are made present without a change of what they hold."""

import ctypes
import mmap

import pytest

from server.memory.host import resident_bytes
from server.weights.pages import populate

MIB = 2**20


def make_memory(size_bytes: int) -> tuple[mmap.mmap, int]:
    memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_fresh_pages_become_resident_and_written_ones_keep_their_bytes() -> None:
    memory, address = make_memory(64 * MIB)
    memory[5 * MIB : 5 * MIB + 3] = b"abc"
    before = resident_bytes()
    populate(address, 32 * MIB)
    grown = resident_bytes() - before
    if grown < MIB:
        pytest.skip("this kernel does not populate pages on request (Linux 5.14)")
    assert abs(grown - 32 * MIB) < 4 * MIB
    assert memory[5 * MIB : 5 * MIB + 3] == b"abc"


@pytest.mark.parametrize(("shift", "size_bytes"), [(1, mmap.PAGESIZE), (0, 0), (7, 50)])
def test_less_than_a_whole_page_is_left_alone(shift: int, size_bytes: int) -> None:
    memory, address = make_memory(MIB)
    populate(address + shift, size_bytes)
    assert memory[:10] == bytes(10)
