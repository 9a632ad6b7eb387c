"""The host as a memory source, on real tensors."""

import resource
from pathlib import Path

import pytest
import torch

from server.memory.facts import Machine, host_facts
from server.memory.host import reset_high_water
from server.memory.host_source import RESIDENT_NOISE_BYTES, HostSource, StorageCounter
from server.memory.oom import out_of_memory
from tests.memory.fake_machine import MIB, FakeMachine

FLOATS_PER_MIB = MIB // 4


def make_source() -> HostSource:
    return HostSource(host_facts(Machine(), "test"), Machine())


def floats(mib: int) -> torch.Tensor:
    return torch.ones(mib * FLOATS_PER_MIB)


def test_live_storages_are_counted_and_their_peak_is_kept() -> None:
    with StorageCounter() as counter:
        first = floats(4)
        second = floats(2)
        assert counter.live_bytes == 6 * MIB
        del first
        assert counter.live_bytes == 2 * MIB
        third = floats(3)
    assert counter.peak_bytes == 6 * MIB
    assert second.numel() + third.numel() == 5 * FLOATS_PER_MIB


def test_views_and_writes_in_place_are_no_new_memory() -> None:
    before = floats(4)
    with StorageCounter() as counter:
        view = before.view(2, -1)[0]
        before.add_(1.0)
        view.zero_()
        before[:10] = 3.0
    assert counter.peak_bytes == 0
    with StorageCounter() as counter:
        made = before.view(2, -1).contiguous() + 1.0
        also = made[0].unsqueeze(0)
    assert counter.peak_bytes == 4 * MIB
    assert also.shape[1] == made.shape[1]


def test_tensors_without_memory_are_not_counted() -> None:
    with StorageCounter() as counter:
        torch.empty((1024, 1024), device="meta")
    assert counter.peak_bytes == 0


def test_counting_works_in_inference_mode() -> None:
    with StorageCounter() as counter, torch.inference_mode():
        torch.nn.functional.linear(floats(1).view(512, -1), floats(1).view(512, -1))
    assert counter.peak_bytes == 3 * MIB


def test_the_peak_of_a_step_is_that_of_its_storages() -> None:
    source = make_source()
    with source.peak() as peak:
        large = floats(96)
        del large
        floats(1)
    # The resident view agrees within its noise, so it adds nothing.
    assert peak.views == {"torch storages": 96 * MIB}
    assert peak.growth_bytes == 96 * MIB


def test_scratch_that_torch_does_not_see_is_in_the_resident_view() -> None:
    if not reset_high_water():
        pytest.skip("this kernel does not reset the high-water mark (/proc/self/clear_refs)")
    source = make_source()
    with source.peak() as peak:
        scratch = bytearray(160 * MIB)
        scratch[::4096] = b"x" * len(scratch[::4096])
        del scratch
    assert peak.views["torch storages"] == 0
    assert 160 * MIB - RESIDENT_NOISE_BYTES < peak.growth_bytes == peak.views["resident pages"]


def test_scratch_within_the_noise_is_left_to_the_margin() -> None:
    source = make_source()
    with source.peak() as peak:
        scratch = bytearray(16 * MIB)
        scratch[::4096] = b"x" * len(scratch[::4096])
        del scratch
    assert peak.growth_bytes == 0


def test_used_by_us_grows_with_what_is_written_and_shrinks_again() -> None:
    source = make_source()
    source.settle()
    before = source.used_by_us_bytes()
    held = floats(192)
    assert abs(source.used_by_us_bytes() - before - held.nbytes) < RESIDENT_NOISE_BYTES
    del held
    source.settle()
    assert abs(source.used_by_us_bytes() - before) < RESIDENT_NOISE_BYTES


def test_what_is_taken_is_what_still_lives_at_the_end() -> None:
    source = make_source()
    with source.taken() as taken:
        kept, gone = floats(192), floats(64)
        del gone
        kept.add_(1.0)
    assert taken.allocated_bytes == kept.nbytes
    assert taken.held_bytes is not None
    assert abs(taken.held_bytes - kept.nbytes) < RESIDENT_NOISE_BYTES


def test_free_and_total_come_from_the_machine(tmp_path: Path) -> None:
    host = FakeMachine(tmp_path)
    machine = host.machine()
    source = HostSource(host_facts(machine, "test"), machine)
    assert (source.facts.total_bytes, source.free_bytes()) == (1000 * MIB, 800 * MIB)
    host.memory(1000, 600)
    assert source.free_bytes() == 600 * MIB
    assert source.used_by_us_bytes() == 4 * MIB


def test_without_a_high_water_mark_the_storages_alone_are_billed(tmp_path: Path) -> None:
    host = FakeMachine(tmp_path)
    machine = host.machine()
    (tmp_path / "proc/self/clear_refs").mkdir()
    source = HostSource(host_facts(machine, "test"), machine)
    with source.peak() as peak:
        floats(1)
    assert peak.views == {"torch storages": MIB}


def test_memory_past_what_is_free_is_refused_and_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, before = make_source(), resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(source, "free_bytes", lambda: 64 * MIB)
    with source.guard():
        assert floats(32).numel() == 32 * FLOATS_PER_MIB
        with pytest.raises(RuntimeError) as caught:
            torch.empty(128 * FLOATS_PER_MIB)
        with pytest.raises(MemoryError):
            bytearray(128 * MIB)
    assert out_of_memory(caught.value)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert torch.empty(128 * FLOATS_PER_MIB).numel() == 128 * FLOATS_PER_MIB


def test_a_guard_keeps_a_limit_that_is_lower_already(monkeypatch: pytest.MonkeyPatch) -> None:
    source, before = make_source(), resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(source, "free_bytes", lambda: 2**70)
    with source.guard():
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_files_that_hold_weights_are_ours_and_not_free(tmp_path: Path) -> None:
    host = FakeMachine(tmp_path)
    machine = host.machine()
    status = tmp_path / "proc/self/status"
    known = status.read_text()

    def mapped(mib: int) -> None:
        status.write_text(known + f"RssFile: {mib * 1024} kB\n")

    mapped(100)
    source = HostSource(host_facts(machine, "test"), machine)
    assert (source.free_bytes(), source.used_by_us_bytes()) == (800 * MIB, 4 * MIB)
    source.count_files()
    mapped(350)
    assert (source.free_bytes(), source.used_by_us_bytes()) == (550 * MIB, 254 * MIB)
    mapped(90)  # libraries may be dropped; nothing is given back that was never taken
    assert (source.free_bytes(), source.used_by_us_bytes()) == (800 * MIB, 4 * MIB)


def test_a_bound_is_measured_while_every_rank_stands_still() -> None:
    source, events = make_source(), []
    source.meet = lambda: events.append("met")
    source.free_bytes = lambda: events.append("looked") or 2**40  # type: ignore[method-assign]
    with source.guard():
        events.append("ran")
    assert events == ["met", "looked", "met", "ran"]
