"""What stays in the page cache: what was there, or what has room; asked of the kernel itself."""

import ctypes
import mmap
import os
import time
from pathlib import Path

import pytest
import torch

from server.weights import load as load_module
from server.weights import pieces
from server.weights import prefetch as prefetch_module
from server.weights.ahead import Ahead, ReadAhead
from server.weights.arena import Arena
from server.weights.entries import TensorEntry
from server.weights.layout import ExpectedTensor
from server.weights.load import load_weights
from server.weights.load_plan import LoadPlan
from server.weights.page_cache import drop, expect, holds, window_bytes
from server.weights.pieces import Held, Piece
from server.weights.prefetch import Prefetch
from tests.weights.make import make_plan, write_single
from tests.weights.test_load import Counter, make_destinations
from tests.weights.test_prefetch import wait_for

PAGE = 4096
_LIBRARY = ctypes.CDLL(None)
# Whole pages lie within each piece of 64 KiB, wherever the header ends.
SHAPES = {"a": (300, 512), "b": (0,), "c": (70, 512)}
LAYOUT = tuple(ExpectedTensor(name, shape, ()) for name, shape in SHAPES.items())


def cached(file: Path) -> set[int]:
    """The pages of a file that are in the page cache. A read that asks would start a read-ahead."""
    size_bytes = file.stat().st_size
    told = (ctypes.c_ubyte * -(-size_bytes // PAGE))()
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), size_bytes) as view:
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert _LIBRARY.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), told) == 0
    return {page for page, flags in enumerate(told) if flags & 1}


def forget(file: Path) -> None:
    """What was just written may take a moment to become what can be forgotten."""
    for _ in range(10):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not cached(file):
            return
        time.sleep(0.05)
    pytest.skip("this file system keeps its files in memory")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadPlan:
    """Of a file that is not in the page cache, and whose header nobody reads once more."""
    monkeypatch.setattr(load_module, "disagreements", lambda _: ())
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64 * 1024)
    tensors = {name: torch.rand(shape).bfloat16() for name, shape in SHAPES.items()}
    write_single(tmp_path, tensors)
    found = make_plan(tmp_path, LAYOUT)
    with file_of(found).open("rb") as opened:
        if holds(Piece(0, found.entries[0], opened.fileno(), 0, PAGE)) is None:
            pytest.skip("this file system does not tell what is in the page cache")
    forget(file_of(found))
    return found


def file_of(plan: LoadPlan) -> Path:
    return plan.entries[0].file


def all_pages(plan: LoadPlan) -> set[int]:
    return set(range(-(-file_of(plan).stat().st_size // PAGE)))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_what_a_load_brought_in_stays_or_goes(
    plan: LoadPlan, keep: bool, wanted: torch.dtype
) -> None:
    held = Held(keep_cached=keep)
    load_weights(plan, make_destinations(LAYOUT, wanted), Counter(), held)
    assert held.brought
    assert cached(file_of(plan)) == (all_pages(plan) if keep else set())


def test_what_was_there_before_stays(plan: LoadPlan) -> None:
    file_of(plan).read_bytes()
    held = Held(keep_cached=False)
    load_weights(plan, make_destinations(LAYOUT, torch.bfloat16), Counter(), held)
    assert not held.brought
    assert cached(file_of(plan)) == all_pages(plan)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_what_was_read_ahead_goes_once_it_is_in_its_place(
    plan: LoadPlan, in_place: bool, keep: bool
) -> None:
    arena = Arena(plan.entries, 2) if in_place else None
    one = Ahead(plan, arena, Held(keep_cached=keep))
    with ReadAhead([one], cache_bytes=2**30) as ahead:
        ahead.wait()
    if not in_place:
        assert cached(file_of(plan)) == all_pages(plan)
    load_weights(plan, make_destinations(LAYOUT, torch.bfloat16), Counter(), one.held)
    assert cached(file_of(plan)) == (all_pages(plan) if keep else set())


def test_a_part_that_was_there_before_is_not_forgotten_with_the_rest(plan: LoadPlan) -> None:
    with file_of(plan).open("rb") as opened:
        last = os.fstat(opened.fileno()).st_size - 1
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(opened.fileno(), 64 * 1024, last + 1 - 64 * 1024)
    held = Held(keep_cached=False)
    load_weights(plan, make_destinations(LAYOUT, torch.bfloat16), Counter(), held)
    assert held.brought
    assert last // PAGE in cached(file_of(plan))


def test_a_piece_is_asked_for_found_and_let_go(plan: LoadPlan) -> None:
    file = file_of(plan)
    with file.open("rb") as opened:
        piece = Piece(0, plan.entries[0], opened.fileno(), 0, 64 * 1024)
        assert holds(piece) is False
        forget(file)  # to ask has the kernel read a page
        expect(piece)
        wait_for(lambda: bool(holds(piece)))  # the disk is only asked to begin
        drop(piece.descriptor)
        assert not cached(file)


@pytest.mark.parametrize("lacking", ["middle", "end"])
def test_a_piece_that_is_there_in_part_is_not_there(plan: LoadPlan, lacking: str) -> None:
    """The page that it shares with the next one is, wherever a boot has ended before."""
    with file_of(plan).open("rb") as opened:
        piece = Piece(0, plan.entries[0], opened.fileno(), 0, 64 * 1024)
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        there = piece.end - 1 if lacking == "middle" else piece.begin + piece.size_bytes // 2
        os.pread(opened.fileno(), 1, there)
        assert cached(file_of(plan)) == {there // PAGE}
        assert holds(piece) is False


def test_where_nobody_can_tell_nothing_is_cached() -> None:
    reads, writes = os.pipe()
    entry = TensorEntry("a", "BF16", (4,), Path("x"), 0, 8)
    try:
        piece = Piece(0, entry, reads, 0, 8)
        assert holds(piece) is None
        expect(piece)
        drop(reads, 0, 8)
    finally:
        os.close(reads)
        os.close(writes)


@pytest.mark.parametrize("in_place", [True, False])
def test_each_piece_goes_as_soon_as_it_is_in_its_place(
    plan: LoadPlan, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Not only at the end: memory for both is what there is not. Pages that two pieces share stay
    for a while, and all parts of the kernel's larger units that do.
    """
    told: list[int] = []
    monkeypatch.setattr(prefetch_module, "drop", lambda _, begin, size_bytes: told.append(begin))
    monkeypatch.setattr(Prefetch, "release_files", lambda _: None)
    held = Held(keep_cached=False)
    begins = [piece.begin for piece in pieces.cut(plan, dict.fromkeys(plan.shards, 0))]
    if in_place:
        with ReadAhead([Ahead(plan, Arena(plan.entries, 2), held)]) as ahead:
            ahead.wait()
        assert told == begins[:1]  # one batch
    else:
        load_weights(plan, make_destinations(LAYOUT, torch.bfloat16), Counter(), held)
        assert sorted(told) == begins


def test_what_the_reading_of_the_header_brought_keeps_no_more_than_its_piece(
    plan: LoadPlan,
) -> None:
    """And the next boot is not misled by it."""
    file = file_of(plan)
    for _ in range(2):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            opened.read(72 * 1024)
        one = Ahead(plan, Arena(plan.entries, 2), Held(keep_cached=False))
        with ReadAhead([one]) as ahead:
            ahead.wait()
        load_weights(plan, make_destinations(LAYOUT, torch.bfloat16), Counter(), one.held)
        everything = {piece.number for piece in pieces.cut(plan, dict.fromkeys(plan.shards, 0))}
        assert one.held.brought == everything - {0}
        assert cached(file) <= set(range(40))


@pytest.mark.parametrize(
    ("largest", "ahead", "window"),
    [("128", "8192", 2**24), ("4096", "128", 2**22), ("0", "0", 2**20), ("odd", "128", 2**18)],
)
@pytest.mark.parametrize("place", ["sda", "sda/sda1", "bdi"])
def test_one_call_reads_as_much_as_the_device_takes(
    tmp_path: Path, largest: str, ahead: str, window: int, place: str
) -> None:
    disk, number = tmp_path / "sda", os.makedev(8, 1)
    (disk / "queue").mkdir(parents=True)
    (disk / "sda1").mkdir()
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "class/bdi/8:1").mkdir(parents=True)
    told = tmp_path / "class/bdi/8:1" if place == "bdi" else disk / "queue"
    (told / "max_sectors_kb").write_text(largest)
    (told / "read_ahead_kb").write_text(ahead)
    if place != "bdi":
        (tmp_path / "dev/block/8:1").symlink_to(tmp_path / place)
    assert window_bytes(number, tmp_path) == window


def test_of_a_device_that_is_not_known_a_mebibyte_is_asked(tmp_path: Path) -> None:
    assert window_bytes(os.makedev(0, 77), tmp_path) == 2**20
