"""Pieces, and the threads that share them: every byte once, faults carried, nothing left over."""

import threading
import time
from pathlib import Path

import pytest

from server.weights import pieces
from server.weights.pieces import LoadError, Piece, cut, open_files
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
