"""Reading before torch is there: the same bytes, faults kept for the load, nothing left behind."""

import errno
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from server.weights import ahead as ahead_module
from server.weights import pieces
from server.weights.ahead import Ahead, ReadAhead
from server.weights.arena import Arena
from server.weights.load import NotFiniteError, load_weights, tensors_in
from server.weights.load_plan import LoadPlan
from server.weights.pieces import LoadError
from server.weights.team import Team
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD, Counter, make_destinations, same_bytes
from tests.weights.test_team import PATIENCE_S

# Room for whole pieces, and what is read: the tensors take 42, 0, 2, 2 and 16770 bytes.
ROOMS = [(16816, 16816), (16815, 46), (46, 46), (45, 44), (0, 0)]


def make_ahead(folder: Path, tensors: dict[str, torch.Tensor]) -> tuple[LoadPlan, Ahead]:
    write_single(folder, tensors)
    plan = make_plan(folder, ODD)
    return plan, Ahead(plan, Arena(plan.entries, 2))


def threads() -> int:
    return sum(thread.name.startswith("load-") for thread in threading.enumerate())


def open_shards() -> int:
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link).endswith("model.safetensors") for link in links)


def test_what_was_read_ahead_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = make_tensors(ODD)
    plan, one = make_ahead(tmp_path, tensors)
    with ReadAhead([one]) as ahead:
        ahead.wait()
    assert ahead.filled_bytes == ahead.read_bytes == plan.checkpoint_bytes
    assert (threads(), open_shards()) == (0, 0)
    monkeypatch.setattr(os, "preadv", None)  # a read would raise
    assert one.arena is not None
    into = tensors_in(one.arena, plan, torch.bfloat16)
    load_weights(plan, into, counter := Counter(), one.held)
    assert all(same_bytes(into[name], tensors[name]) for name in tensors)
    assert counter.size_bytes == plan.checkpoint_bytes


def test_the_load_reads_what_was_not_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100)
    tensors = make_tensors(ODD)
    plan, one = make_ahead(tmp_path, tensors)
    with ReadAhead([one]) as ahead:
        ahead.wait()
    assert one.arena is not None
    one.held.filled.difference_update({0, 3, 4})
    for name in tensors:
        view = one.arena.view(name)
        view[:] = b"x" * len(view)
    into = tensors_in(one.arena, plan, torch.bfloat16)
    load_weights(plan, into, Counter(), one.held)
    stale = torch.full((1,), 0x7878, dtype=torch.int16).view(torch.bfloat16)
    assert bool((into["e"] == stale).any())
    assert not bool((into["e"] == stale).all())


def test_values_that_were_read_ahead_are_looked_at_too(tmp_path: Path) -> None:
    tensors = make_tensors(ODD)
    tensors["e"][77, 3] = float("nan")
    plan, one = make_ahead(tmp_path, tensors)
    with ReadAhead([one]) as ahead:
        ahead.wait()
    assert one.arena is not None
    with pytest.raises(NotFiniteError) as caught:
        load_weights(plan, tensors_in(one.arena, plan, torch.bfloat16), Counter(), one.held)
    assert caught.value.tensor == "e"


@pytest.mark.parametrize(("room_bytes", "read"), ROOMS)
def test_without_an_arena_only_as_much_is_read_as_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int, read: int
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10**6)
    plan, _ = make_ahead(tmp_path, make_tensors(ODD))
    one = Ahead(plan)
    with ReadAhead([one], room_bytes) as ahead:
        ahead.wait()
    assert not one.held.filled
    assert ahead.filled_bytes == 0
    assert ahead.read_bytes == read


def test_a_failing_disk_is_told_by_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(descriptor: int, views: list[memoryview], offset: int, *flags: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    _, one = make_ahead(tmp_path, make_tensors(ODD))
    monkeypatch.setattr(os, "preadv", fails)
    with ReadAhead([one]) as ahead, pytest.raises(LoadError, match="Input/output") as caught:
        ahead.stop()
    assert (caught.value.file.name, caught.value.tensor is None) == ("model.safetensors", False)
    assert (threads(), open_shards()) == (0, 0)


def test_a_file_that_changed_is_told_by_the_stop_and_not_read(tmp_path: Path) -> None:
    _, one = make_ahead(tmp_path, make_tensors(ODD))
    os.truncate(tmp_path / "model.safetensors", 100)
    with ReadAhead([one]) as ahead, pytest.raises(LoadError, match="changed after its header"):
        ahead.stop()
    assert ahead.read_bytes == 0
    assert open_shards() == 0


def test_a_file_that_changes_after_it_was_read_ahead_is_told_by_the_load(tmp_path: Path) -> None:
    plan, one = make_ahead(tmp_path, make_tensors(ODD))
    with ReadAhead([one]) as ahead:
        ahead.wait()
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    into = make_destinations(ODD, torch.bfloat16)
    with pytest.raises(LoadError, match="changed after its header"):
        load_weights(plan, into, Counter(), one.held)


def test_leaving_the_block_stops_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a refusal or a signal during the import of torch does."""
    whole, stop, go = os.preadv, Team.stop, threading.Event()

    def slow(descriptor: int, views: list[memoryview], offset: int, *flags: int) -> int:
        go.wait(PATIENCE_S)
        return whole(descriptor, views, offset, *flags)

    def stops(team: Team, _: float | None = None) -> bool:
        stop(team, 0.0)
        go.set()  # only now is a read under way at its end
        return stop(team, PATIENCE_S)

    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)
    monkeypatch.setattr(ahead_module, "_BATCH_BYTES", 64)
    monkeypatch.setattr(os, "preadv", slow)
    monkeypatch.setattr(Team, "stop", stops)
    monkeypatch.setattr(ahead_module, "_PATIENCE_S", PATIENCE_S)
    plan, one = make_ahead(tmp_path, make_tensors(ODD))
    ahead = ReadAhead([one])

    def interrupted() -> None:
        with ahead:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ahead.read_bytes < plan.checkpoint_bytes
    assert (threads(), open_shards()) == (0, 0)


def test_python_switches_threads_often_while_reading_and_as_before_afterwards(
    tmp_path: Path,
) -> None:
    before = sys.getswitchinterval()
    _, one = make_ahead(tmp_path, make_tensors(ODD))
    with ReadAhead([one]) as ahead:
        assert sys.getswitchinterval() < before / 2
        ahead.stop()
        assert sys.getswitchinterval() == before
    with suppress(RuntimeError), ReadAhead([one]):
        raise RuntimeError
    assert sys.getswitchinterval() == before
