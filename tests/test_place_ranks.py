"""Each rank has a device of its own with room for its step: known before one is started."""

from pathlib import Path

import pytest

from server import placing
from server.log import Log, Refused
from server.memory.facts import find_device
from server.report import NOT_LOADED, NOT_TOUCHED
from server.seats import Seat
from tests.boots import make_log, make_options, rules
from tests.memory.fake_machine import FakeMachine, fake_gpu, fake_nvml
from tests.memory.make import GIB
from tests.test_loading import admitted


def place(
    folder: Path, seat: Seat, gpus: int, device: str = "auto", **others: object
) -> tuple[placing.Placed, Log]:
    """What is placed on a machine with `gpus` GPUs."""
    listed = [fake_gpu(f"GPU-{i}", total=80 * GIB, free=80 * GIB) for i in range(gpus)]
    machine = FakeMachine(folder).machine(fake_nvml(listed))
    options = make_options(
        "sample:qwen3", "sample:dflash", device=device, tensor_parallel_size=seat.world, **others
    )
    log = make_log()
    log.report.settings |= make_log(make_options("x")).report.settings
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    admission = admitted(options, log)
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patched.setattr(
            placing, "find_device", lambda name, env, _: find_device(name, env, machine)
        )
        try:
            return placing.place(admission, options, log, seat), log
        except Refused:
            assert rules(log) == (["SD504"] if others else ["SD601"])
            raise


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.getbasetemp() / "samples"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SERVER_CACHE_DIR", str(folder))


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_rank_takes_the_device_of_its_number(tmp_path: Path, device: str) -> None:
    placed, _ = place(tmp_path, Seat(1, 2, 1, 2, started=True), 2, device)
    assert placed.facts.label.startswith("cuda:1")
    whole, _ = place(tmp_path / "one", Seat(), 2, device)
    for mine, all_of_it in zip(placed.plans, whole.plans, strict=True):
        assert mine.role == all_of_it.role
        assert all_of_it.numel / 2 <= mine.numel < all_of_it.numel * 0.51
    assert placed.need.layout.block_bytes * 2 == whole.need.layout.block_bytes


def test_the_launcher_refuses_more_ranks_than_devices(tmp_path: Path) -> None:
    place(tmp_path, Seat(world=2, sharers=2), 2)
    with pytest.raises(Refused):
        place(tmp_path / "few", Seat(world=2, sharers=2), 1)


def test_the_launcher_asks_nvml_no_more_often_for_more_ranks(tmp_path: Path) -> None:
    counts = []
    for world in (2, 4):
        listed = fake_nvml([fake_gpu(f"GPU-{i}", total=80 * GIB) for i in range(world)])
        asked, begin = [], listed.nvmlInit
        listed.nvmlInit = lambda asked=asked, begin=begin: (asked.append(1), begin())
        machine = FakeMachine(tmp_path / str(world)).machine(listed)
        with pytest.MonkeyPatch.context() as patched:
            patched.delenv("CUDA_VISIBLE_DEVICES", raising=False)
            assert not placing.device_for_each(Seat(world=world, sharers=world), machine).refused
        counts.append(len(asked))
    assert counts == [1, 1]


def test_without_a_gpu_the_ranks_share_the_host(tmp_path: Path) -> None:
    placed, log = place(tmp_path, Seat(world=2, sharers=2), 0)
    assert placed.facts.label == "cpu host memory"
    assert rules(log) == []


def test_a_step_is_placed_up_to_the_largest_that_has_room(tmp_path: Path) -> None:
    def asked(tokens: int) -> None:
        place(tmp_path / f"{tokens}", Seat(), 1, max_num_batched_tokens=tokens)

    fits, refused = 1, 2**31
    while refused - fits > 1:
        between = (fits + refused) // 2
        try:
            asked(between)
            fits = between
        except Refused:
            refused = between
    # The sample's rows take some KiB each at least, and the limit is 72 GiB.
    assert 72 * GIB // 2**14 < fits < 72 * GIB // 2**10
