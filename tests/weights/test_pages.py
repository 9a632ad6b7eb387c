"""Pages are made present without a change of what they hold."""

import ctypes
import mmap

import pytest

from server.weights import pages
from server.weights.pages import populate, present

MIB = 2**20


def make_memory(size_bytes: int) -> tuple[mmap.mmap, int]:
    memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def present_pages(address: int, size_bytes: int) -> int:
    return sum(present(at) for at in range(address, address + size_bytes, mmap.PAGESIZE))


def test_fresh_pages_become_present_and_written_ones_keep_their_bytes() -> None:
    memory, address = make_memory(8 * MIB)
    memory[MIB : MIB + 3] = b"abc"
    assert present_pages(address, 8 * MIB) == 1
    populate(address, 4 * MIB)
    if present_pages(address, 8 * MIB) == 1:
        pytest.skip("this kernel does not populate pages on request (Linux 5.14)")
    assert present_pages(address, 8 * MIB) == 4 * MIB // mmap.PAGESIZE
    assert memory[MIB : MIB + 3] == b"abc"


@pytest.mark.parametrize(("written", "expected"), [((0, 3), 0), ((0,), 1), ((3,), 1), ((), 1)])
def test_pages_whose_ends_are_there_are_not_asked_for_again(
    written: tuple[int, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class Library:
        mincore = pages._LIBRARY.mincore

        @staticmethod
        def madvise(*call: object) -> None:
            asked.append(call)

    memory, address = make_memory(4 * mmap.PAGESIZE)
    for page in written:
        memory[page * mmap.PAGESIZE] = 1
    monkeypatch.setattr(pages, "_LIBRARY", Library)
    populate(address, 4 * mmap.PAGESIZE)
    assert len(asked) == expected


@pytest.mark.parametrize(("shift", "size_bytes"), [(1, mmap.PAGESIZE), (0, 0), (7, 50)])
def test_less_than_a_whole_page_is_left_alone(shift: int, size_bytes: int) -> None:
    memory, address = make_memory(MIB)
    populate(address + shift, size_bytes)
    assert memory[:10] == bytes(10)
