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
from server.weights import page_cache
from server.weights import prefetch as prefetch_module
from server.weights.load import load_weights
from server.weights.pieces import Held
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
    monkeypatch.setattr(prefetch_module, "holds", lambda _: False)
    monkeypatch.setattr(page_cache, "_step_bytes", lambda _: 300)
    return told


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_each_byte_is_told_once_in_order_and_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    found = make_pieces(tmp_path, monkeypatch, 1000)
    prefetch = Prefetch(found, lambda _: Held())
    prefetch.start()
    wait_for(lambda: bool(advised) and sum(advised[-1]) == found[-1].end)
    assert list(prefetch) == found
    assert prefetch.stop(PATIENCE_S)
    assert all(0 < size_bytes <= 300 for _, size_bytes in advised)
    assert all(sum(one) == other[0] for one, other in pairwise(advised))
    assert advised[0][0] == found[0].begin


def test_no_more_is_told_than_a_window_ahead_of_what_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    monkeypatch.setattr(prefetch_module, "_PIECES_AHEAD", 3)
    found = make_pieces(tmp_path, monkeypatch)
    prefetch = Prefetch(found, lambda _: Held())
    prefetch.start()
    pieces = iter(prefetch)
    for taken, most in ((0, 4), (1, 5), (3, 8)):
        list(islice(pieces, taken))
        wait_for(lambda most=most: len(advised) == most)
        time.sleep(0.02)
        assert [begin for begin, _ in advised] == [piece.begin for piece in found[:most]]
    assert prefetch.stop(PATIENCE_S)


@pytest.mark.parametrize("taken_after", [0, 1])
def test_a_stop_ends_a_thread_that_waits_though_a_piece_is_taken_meanwhile(
    taken_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    monkeypatch.setattr(prefetch_module, "_PIECES_AHEAD", 1)
    prefetch = Prefetch(make_pieces(tmp_path, monkeypatch), lambda _: Held())
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
    monkeypatch.setattr(prefetch_module, "holds", lambda piece: piece is found[-1])
    monkeypatch.setattr(page_cache, "_step_bytes", lambda _: 2**20)
    held = Held({found[0].number})
    prefetch = Prefetch(found, lambda _: held)
    prefetch.start()
    wait_for(lambda: not any(t.name == "load-disk" for t in threading.enumerate()))
    assert [begin for begin, _ in advised] == [piece.begin for piece in found[1:-1]]
    assert held.brought == {piece.number for piece in found[1:-1]}


def test_what_was_taken_already_is_not_told_but_known_to_come_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    """Whoever took it may have let it go again, and it would be read twice."""
    found, held = make_pieces(tmp_path, monkeypatch, 1000), Held()
    monkeypatch.setattr(page_cache, "_step_bytes", lambda _: 1000)
    prefetch = Prefetch(found, lambda _: held)
    list(islice(iter(prefetch), 3))
    prefetch.start()
    wait_for(lambda: not any(t.name == "load-disk" for t in threading.enumerate()))
    assert [begin for begin, _ in advised] == [piece.begin for piece in found[3:]]
    assert held.brought == {piece.number for piece in found}


@pytest.mark.parametrize(
    ("keep", "brought", "runs"),
    [
        (False, {0, 1, 2}, [(0, 2)]),
        (False, {0, 2}, [(0, 0), (2, 2)]),
        (False, {1, 2}, [(1, 2)]),
        (False, set(), []),
        (True, {0, 1, 2}, []),
    ],
)
def test_only_what_was_brought_is_let_go_and_only_where_it_is_not_to_stay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep: bool,
    brought: set[int],
    runs: list[tuple[int, int]],
) -> None:
    found = make_pieces(tmp_path, monkeypatch)[:3]
    told: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *given: told.append(given))
    held = Held(brought=brought, keep_cached=keep)
    prefetch = Prefetch(found, lambda _: held)
    prefetch.release(found)
    ranges = [(found[a].begin, found[b].end - found[a].begin) for a, b in runs]
    descriptor = found[0].descriptor
    assert told == [(descriptor, *one, os.POSIX_FADV_DONTNEED) for one in ranges]
    told.clear()
    prefetch.release_files()
    whole = [(0, 0)] if runs == [(0, 2)] else []
    assert told == [(descriptor, *one, os.POSIX_FADV_DONTNEED) for one in ranges + whole]


def test_where_nobody_can_tell_the_disk_is_told_and_nothing_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advised: Advice
) -> None:
    """What others have in the page cache of such a file system stays there."""
    found, held = make_pieces(tmp_path, monkeypatch, 1000), Held(keep_cached=False)
    monkeypatch.setattr(prefetch_module, "holds", lambda _: None)
    monkeypatch.setattr(page_cache, "_step_bytes", lambda _: 1000)
    prefetch = Prefetch(found, lambda _: held)
    prefetch.start()
    wait_for(lambda: not any(t.name == "load-disk" for t in threading.enumerate()))
    assert [begin for begin, _ in advised] == [piece.begin for piece in found]
    assert not held.brought


def test_a_load_leaves_no_thread_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "_PATIENCE_S", PATIENCE_S)  # with the disk a load has little
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    load_weights(plan, make_destinations(ODD, torch.bfloat16), Counter())
    assert not any(t.name.startswith("load-") for t in threading.enumerate())
