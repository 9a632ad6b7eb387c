"""What the disk is told to begin with: what will be read and is not there, and not too much."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch

from server.weights import load as load_module
from server.weights import prefetch as prefetch_module
from server.weights.load import load_weights
from server.weights.pieces import Piece
from server.weights.prefetch import Prefetch
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD, Counter, make_destinations
from tests.weights.test_team import PATIENCE_S, make_pieces

Advice = list[tuple[int, int]]


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> Iterator[Advice]:
    """Begin and size of what the disk was told to read; nothing is in the page cache."""
    told: Advice = []

    def advise(descriptor: int, begin: int, size_bytes: int, advice: int) -> None:
        if advice == os.POSIX_FADV_WILLNEED:
            told.append((begin, size_bytes))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(prefetch_module, "_cached", lambda *_: False)
    return told


def begin_of(piece: Piece) -> int:
    return piece.entry.begin + piece.at_bytes


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_each_byte_is_told_once_in_order_and_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    found = make_pieces(tmp_path, monkeypatch, 1000)
    monkeypatch.setattr(prefetch_module, "_STEP_BYTES", 300)
    prefetch = Prefetch(found)
    prefetch.start()
    assert list(prefetch) == found
    wait_for(lambda: bool(advised) and sum(advised[-1]) == begin_of(found[-1]) + 770)
    assert prefetch.stop(PATIENCE_S)
    assert all(0 < size_bytes <= 300 for _, size_bytes in advised)
    assert all(sum(one) == other[0] for one, other in pairwise(advised))
    assert advised[0][0] == begin_of(found[0])


def test_no_more_is_told_than_a_window_ahead_of_what_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    monkeypatch.setattr(prefetch_module, "_PIECES_AHEAD", 3)
    found = make_pieces(tmp_path, monkeypatch)
    prefetch = Prefetch(found)
    prefetch.start()
    pieces = iter(prefetch)
    for taken in (0, 1, 5):
        list(islice(pieces, taken))
        most = sum((0, 1, 5)[: (0, 1, 5).index(taken) + 1]) + 4
        wait_for(lambda most=most: len(advised) == most)
        time.sleep(0.02)
        assert [begin for begin, _ in advised] == [begin_of(piece) for piece in found[:most]]
    assert prefetch.stop(PATIENCE_S)


@pytest.mark.parametrize("taken_after", [0, 1])
def test_a_stop_ends_a_thread_that_waits_though_a_piece_is_taken_meanwhile(
    taken_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    monkeypatch.setattr(prefetch_module, "_PIECES_AHEAD", 1)
    prefetch = Prefetch(make_pieces(tmp_path, monkeypatch))
    prefetch.start()
    wait_for(lambda: len(advised) == 2)
    prefetch.stop(0.0)
    list(islice(iter(prefetch), taken_after))
    assert prefetch.stop(PATIENCE_S)
    assert len(advised) == 2


def test_what_is_in_place_or_in_the_page_cache_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    found = make_pieces(tmp_path, monkeypatch, 2**20)
    ends = {begin_of(found[-1]), begin_of(found[-1]) + found[-1].size_bytes - 1}
    monkeypatch.setattr(prefetch_module, "_cached", lambda _, at: at in ends)
    prefetch = Prefetch(found, {found[0].number})
    prefetch.start()
    list(prefetch)
    wait_for(lambda: not any(t.name == "load-disk" for t in threading.enumerate()))
    assert [begin for begin, _ in advised] == [begin_of(piece) for piece in found[1:-1]]


def test_the_page_cache_is_asked_and_where_it_cannot_be_the_disk_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12")
    with file.open("rb") as opened:
        assert prefetch_module._cached(opened.fileno(), 1)  # just written
        assert not prefetch_module._cached(opened.fileno(), 2)  # behind the end
    reads, writes = os.pipe()
    try:
        assert not prefetch_module._cached(reads, 0)  # nothing that has a place
    finally:
        os.close(reads)
        os.close(writes)


def test_a_load_leaves_no_thread_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "_PATIENCE_S", PATIENCE_S)  # with the disk a load has little
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    load_weights(plan, make_destinations(ODD, torch.bfloat16), Counter())
    assert not any(t.name.startswith("load-") for t in threading.enumerate())
