"""Pieces, and the threads that share them: every byte once, faults carried, nothing left over."""

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from server.weights import pieces
from server.weights.pieces import LoadError, Piece, batches, cut, open_files, read_batch
from server.weights.team import Team
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD

PATIENCE_S = 60


class Hands:
    """A worker that writes down what it does, and may fail or hang at one piece."""

    def __init__(self, fails_at: int | None = None, hangs: threading.Event | None = None) -> None:
        self.seen: list[int] = []
        self.finished = 0
        self.fails_at = fails_at
        self.hangs = hangs

    def fill(self, piece: Piece) -> None:
        self.seen.append(piece.number)
        if piece.number == self.fails_at:
            raise LoadError("fails", piece.entry.file, piece.entry.name)
        if self.hangs is not None:
            assert self.hangs.wait(PATIENCE_S)

    def finish(self) -> None:
        self.finished += 1


def make_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int = 100
) -> list[Piece]:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    write_single(folder, make_tensors(ODD))
    plan = make_plan(folder, ODD)
    with open_files(plan) as descriptors:
        return list(cut(plan, descriptors))


@pytest.mark.parametrize("piece_bytes", [2, 101, 2**20])
def test_pieces_cover_each_byte_once_in_file_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    found = make_pieces(tmp_path, monkeypatch, piece_bytes)
    begins = [piece.entry.begin + piece.at_bytes for piece in found]
    ends = [begin + piece.size_bytes for begin, piece in zip(begins, found, strict=True)]
    assert begins[1:] == ends[:-1]
    assert ends[-1] == (tmp_path / "model.safetensors").stat().st_size
    assert [piece.number for piece in found] == list(range(len(found)))
    assert all(piece.size_bytes % 2 == 0 and piece.size_bytes <= piece_bytes for piece in found)


@pytest.mark.parametrize(
    ("most_bytes", "sizes"),
    [(16816, [16816]), (16815, [46, 16770]), (46, [46, 16770]), (45, [44, 2, 16770])],
)
def test_pieces_side_by_side_are_one_batch_as_far_as_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, sizes: list[int]
) -> None:
    found = make_pieces(tmp_path, monkeypatch, 10**6)
    told = [sum(piece.size_bytes for piece in batch) for batch in batches(found, most_bytes)]
    assert told == sizes
    assert [piece for batch in batches(found, most_bytes) for piece in batch] == found
    assert not list(batches([], 10))


def test_what_is_apart_is_not_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = make_pieces(tmp_path, monkeypatch)[:3]
    assert list(batches([one, three], 10**6)) == [(one,), (three,)]
    elsewhere = replace(two, descriptor=two.descriptor + 1)
    assert list(batches([one, elsewhere], 10**6)) == [(one,), (elsewhere,)]
    in_part = replace(two, entry=two.entry._replace(pitch_bytes=8))
    assert list(batches([one, in_part, three], 10**6)) == [(one,), (in_part,), (three,)]
    monkeypatch.setattr(pieces, "_MOST_VIEWS", 2)
    assert list(batches([one, two, three], 10**6)) == [(one, two), (three,)]


@pytest.mark.parametrize("most_bytes", [1, 41, 42, 45, 1000, 10**6])
def test_a_batch_is_whole_however_little_one_call_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    write_single(tmp_path, tensors := make_tensors(ODD))
    plan, preadv = make_plan(tmp_path, ODD), os.preadv

    def short(descriptor: int, views: list[memoryview], at: int) -> int:
        left, cut_views = most_bytes, []
        for view in views:
            cut_views.append(view[:left])
            left -= len(cut_views[-1])
        return preadv(descriptor, cut_views, at)

    monkeypatch.setattr(os, "preadv", short)
    with open_files(plan) as descriptors:
        batch = next(batches(cut(plan, descriptors), 10**6))
        memory = [memoryview(bytearray(piece.size_bytes)) for piece in batch]
        read_batch(batch, memory)
    right = b"".join(bytes(t.view(-1).view(torch.uint8).numpy()) for t in tensors.values())
    assert b"".join(memory) == right


def test_a_batch_is_read_by_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each return to Python may wait for the thread that imports."""
    write_single(tmp_path, make_tensors(ODD))
    plan, preadv, calls = make_plan(tmp_path, ODD), os.preadv, []

    def counted(descriptor: int, views: list[memoryview], at: int) -> int:
        calls.append(at)
        return preadv(descriptor, views, at)

    monkeypatch.setattr(os, "preadv", counted)
    with open_files(plan) as descriptors:
        batch = next(batches(cut(plan, descriptors), 10**6))
        assert len(batch) > 1
        read_batch(batch, [memoryview(bytearray(piece.size_bytes)) for piece in batch])
    assert calls == [batch[0].begin]


def test_a_batch_that_fails_names_the_tensor_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_single(tmp_path, make_tensors(ODD))
    plan, preadv = make_plan(tmp_path, ODD), os.preadv

    def fails(descriptor: int, views: list[memoryview], at: int) -> int:
        if at + sum(map(len, views)) > plan.entries[-1].begin:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(descriptor, views, at)

    monkeypatch.setattr(os, "preadv", fails)
    with open_files(plan) as descriptors:
        batch = next(batches(cut(plan, descriptors), 10**6))
        memory = [memoryview(bytearray(piece.size_bytes)) for piece in batch]
        with pytest.raises(LoadError, match="Input/output") as caught:
            read_batch(batch, memory)
    assert caught.value.tensor == plan.entries[-1].name


def test_every_piece_is_filled_once_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, hands, told = make_pieces(tmp_path, monkeypatch), Hands(), []
    team = Team(lambda: hands, found, lambda piece: told.append(piece.number), 3)
    team.start()
    team.wait()
    everything = [piece.number for piece in found]
    assert sorted(hands.seen) == sorted(told) == everything
    assert hands.finished == 3


def test_a_fault_ends_the_work_and_is_raised_where_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, told = make_pieces(tmp_path, monkeypatch, 2), []
    team = Team(lambda: Hands(fails_at=3), found, lambda piece: told.append(piece.number), 1)
    team.start()
    with pytest.raises(LoadError, match="fails"):
        team.wait()
    assert told == [0, 1, 2]
    assert isinstance(team.fault, LoadError)


def test_a_stop_finishes_the_pieces_under_way_and_starts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    found, hands, told = make_pieces(tmp_path, monkeypatch, 2), Hands(hangs=go), []
    team = Team(lambda: hands, found, lambda piece: told.append(piece.number), 2)
    team.start()
    end = time.monotonic() + PATIENCE_S
    while len(hands.seen) < 2 and time.monotonic() < end:
        time.sleep(0.001)
    assert not team.stop(0.01)
    go.set()
    assert team.stop()
    assert sorted(hands.seen) == sorted(told) == [0, 1]
    assert len(found) > 2


def test_a_worker_that_cannot_be_made_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Hands:
        raise RuntimeError("no stream")

    team = Team(broken, make_pieces(tmp_path, monkeypatch), lambda _: None, 2)
    team.start()
    with pytest.raises(RuntimeError, match="no stream"):
        team.wait()


def test_what_interrupts_the_wait_stops_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal's handler does, between two steps of the thread that waits."""
    found, hands = make_pieces(tmp_path, monkeypatch, 2), Hands()
    team = Team(lambda: hands, found, lambda _: None, 2)
    team.start()

    def interrupt(_: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            team.wait()
    assert team.stop(PATIENCE_S)
    seen = len(hands.seen)
    time.sleep(0.02)
    assert len(hands.seen) == seen
