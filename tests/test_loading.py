"""The load as a boot does it: read ahead, private or mapped, and nothing left after a refusal."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from server import loading, placing, serve, startup
from server.admission import Admission
from server.log import Log, Refused
from server.memory.cgroup import Bound
from server.memory.host import HostMemory
from server.options import Options
from server.report import NOT_LOADED, NOT_TOUCHED
from tests.boots import make_log, make_options, rules, said
from tests.process import SMALL, Finished, environment, run

ONCE = ("--exit-after-boot", "--output-format", "json")
BOOT = ("--target", "sample:qwen3", "--device", "cpu", "--draft", "sample:dflash", *SMALL)
# Starts a boot whose import of torch hangs, and whose every read of a weight does.
_HANGING = """
import os, sys, threading, time
whole = os.preadv
def hangs(*arguments):
    os.write(2, b"reading\\n")
    time.sleep(600)
os.preadv = hangs
class Finder:
    def find_spec(self, name, *_):
        if name == "torch":
            os.write(2, b"importing\\n")
            time.sleep(600)
sys.meta_path.insert(0, Finder())
import runpy
sys.argv = ["server", *sys.argv[1:]]
runpy.run_module("server", run_name="__main__", alter_sys=True)
"""

# Starts a boot that tells, before two of its phases, whether garbage is collected.
_COLLECTING = """
import gc, sys
from server import placing, process, serve
place, profile = placing.place, serve.profile
def told(name, whole):
    def run(*given):
        frozen = gc.get_freeze_count()
        print("gc", name, gc.isenabled(), "many" if frozen > 10**5 else frozen, file=sys.stderr)
        return whole(*given)
    return run
placing.place, serve.profile = told("device", place), told("profile", profile)
from server.__main__ import main
sys.exit(main())
"""
# Starts a boot whose look at the weights hangs inside torch, as it may over mapped files.
_LOOKING = """
import os, runpy, sys
import torch
from server.weights import finite
def hangs(values):
    many = torch.zeros(2**22)
    os.write(2, b"looking\\n")
    while True:
        many.sum()
finite.not_finite = hangs
sys.argv = ["server", *sys.argv[1:]]
runpy.run_module("server", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.getbasetemp() / "samples"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SERVER_CACHE_DIR", str(folder))
    return folder


def admitted(options: Options, log: Log) -> Admission:
    """What the gate admits, up to the point where a device is looked for."""
    caught: list[Admission] = []

    def catch(admission: Admission, *_: object) -> None:
        caught.append(admission)
        raise Refused

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(placing, "place", catch)
        with pytest.raises(Refused):
            startup.boot(options, log)
    return caught[0]


def place(**others: object) -> tuple[placing.Placed, Log]:
    options = make_options("sample:qwen3", "sample:dflash", device="cpu", **others)
    log = make_log()
    log.report.settings |= make_log(make_options("x")).report.settings
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    return placing.place(admitted(options, log), options, log), log


@pytest.mark.parametrize(
    ("weights", "source"), [("private", "default"), ("mapped", "flag --weights")]
)
def test_weights_boot_and_the_ledger_closes(
    cache: Path, small_boot: Callable[[str | None], Finished], weights: str, source: str
) -> None:
    mapped = weights == "mapped"
    boot = (*BOOT, "--weights", weights, *ONCE)
    done = run(*boot, cache=cache) if mapped else small_boot("sample:dflash")
    assert done.code == 0, done.stdout + done.stderr
    report = done.json
    assert report["settings"]["weights"] == {"value": weights, "source": source}
    ledger = {line["line"]: line for line in report["memory"]["ledger"]}
    for name in ("target weights", "draft weights"):
        assert ledger[name]["billed_bytes"] == ledger[name]["measured_bytes"]
    assert ledger["runtime"]["measured_bytes"] > 50 * 2**20
    assert "SD507" not in {found["rule"] for found in report["diagnostics"]}


def test_the_final_memory_is_filled_where_nothing_is_converted() -> None:
    placed, _ = place()
    ahead = loading.read_ahead(placed)
    sizes = {role: one.arena is not None for role, one in ahead.plans.items()}
    assert sizes == {"target": True, "draft": True}
    placed, _ = place(dtype="float32")
    ahead = loading.read_ahead(placed)
    assert all(one.arena is None for one in ahead.plans.values())
    placed, _ = place(weights="mapped")
    ahead = loading.read_ahead(placed)
    assert all(one.arena is None for one in ahead.plans.values())


def test_under_a_limit_on_the_process_no_memory_is_reserved_ahead() -> None:
    placed, _ = place()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (2**46, before[1]))
    try:
        ahead = loading.read_ahead(placed)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    assert all(one.arena is None for one in ahead.plans.values())


def room(monkeypatch: pytest.MonkeyPatch, available_bytes: int) -> None:
    memory = HostMemory(2**40, available_bytes)
    monkeypatch.setattr(loading, "read_host", lambda sharers: memory)


@pytest.mark.parametrize("spare_bytes", [0, -1])
def test_files_stay_in_the_page_cache_where_there_is_room_beside_all_that_is_planned(
    monkeypatch: pytest.MonkeyPatch, spare_bytes: int
) -> None:
    placed, _ = place(max_num_seqs=1)
    files_bytes = sum(plan.checkpoint_bytes for plan in placed.plans)
    planned = placing.planned_bytes(placed)
    weights = placed.need.weights
    assert planned > weights.target_bytes + weights.draft_bytes + placed.options.memory_margin_bytes
    room(monkeypatch, files_bytes + planned + spare_bytes)
    kept = {one.held.keep_cached for one in loading.read_ahead(placed).plans.values()}
    assert kept == {spare_bytes == 0}
    facts = placing.replace(placed.facts, kind=placing.DeviceKind.CUDA)
    room(monkeypatch, files_bytes + spare_bytes)  # a host needs no more for a GPU
    on_gpu = loading.read_ahead(placing.replace(placed, facts=facts)).plans.values()
    assert {one.held.keep_cached for one in on_gpu} == {spare_bytes == 0}


def test_more_requests_leave_less_room_for_files() -> None:
    few, many = (placing.planned_bytes(place(max_num_seqs=count)[0]) for count in (1, 2))
    assert few < many


def test_without_room_the_files_of_several_ranks_and_mapped_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another rank may have yet to read them; mapped ones are the weights."""
    room(monkeypatch, 0)
    alone, _ = place()
    assert not any(one.held.keep_cached for one in loading.read_ahead(alone).plans.values())
    shared = placing.replace(alone, seat=placing.replace(alone.seat, sharers=2))
    assert all(one.held.keep_cached for one in loading.read_ahead(shared).plans.values())
    mapped, _ = place(weights="mapped")
    assert all(one.held.keep_cached for one in loading.read_ahead(mapped).plans.values())
    # A limit on the process (ulimit -v) does not count the page cache.
    monkeypatch.setattr(loading, "process_limits", lambda: [Bound("a limit", 1, 1)])
    assert all(one.held.keep_cached for one in loading.read_ahead(alone).plans.values())


@pytest.mark.parametrize(("resident", "runtime"), [(2**30, 2**30 - 1000), (999, 0)])
def test_what_was_read_ahead_is_not_runtime_which_is_never_negative(
    monkeypatch: pytest.MonkeyPatch, cache: Path, resident: int, runtime: int
) -> None:
    placed, log = place()
    with loading.read_ahead(placed) as ahead:
        opened = serve.open_device(placed, log)
        ahead.stop()
        ahead.filled_bytes = 1000
        monkeypatch.setattr(opened.source, "used_by_us_bytes", lambda: resident)
        assert loading.load(opened, ahead, log).runtime_bytes == runtime


def test_a_fault_while_reading_ahead_is_told_as_one_of_the_load(cache: Path) -> None:
    placed, log = place()
    shard = placed.admission.target_plan.entries[0].file
    times = shard.stat()
    with loading.read_ahead(placed) as ahead:
        opened = serve.open_device(placed, log)
        os.utime(shard, ns=(1, 1))
        try:
            with pytest.raises(Refused):
                loading.load(opened, ahead, log)
        finally:
            os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert rules(log) == ["SD415"]
    assert shard.name in said(log)


def test_mapped_weights_are_not_converted_and_not_on_a_gpu(cache: Path) -> None:
    converted = run(*BOOT, "--weights", "mapped", "--dtype", "float32", cache=cache)
    assert converted.code == 2
    assert len(converted.error_lines) == 2
    assert converted.error_lines[0].startswith("error[SD705]")
    assert "bfloat16 is to be converted to float32" in " ".join(converted.stderr.split())
    cuda = run("--target", "x", "--device", "cuda", "--weights", "mapped", cache=cache)
    assert cuda.code == 2
    assert cuda.error_lines == [
        "error[SD705] flags-conflict: --weights is mapped, and --device is cuda"
    ]


def test_a_device_that_turns_out_to_be_a_gpu_does_not_map() -> None:
    placed, _ = place(weights="mapped")
    facts = placing.replace(placed.facts, kind=placing.DeviceKind.CUDA)
    outcome = placing._mappable(placing.replace(placed, facts=facts))
    assert [found.rule for found in outcome.findings] == ["SD705"]
    assert not placing._mappable(placed).findings


def test_garbage_is_collected_once_torch_is_there_and_not_that_of_its_import(cache: Path) -> None:
    command = [sys.executable, "-c", _COLLECTING, *BOOT, *ONCE]
    done = subprocess.run(
        command, env=environment(cache), cwd=cache, capture_output=True, text=True, check=True
    )
    assert [line for line in done.stderr.splitlines() if line.startswith("gc")] == [
        "gc device False 0",
        "gc profile True many",
    ]


def test_a_refusal_at_the_gate_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(_: placing.Placed) -> None:
        raise AssertionError("it read")

    monkeypatch.setattr(loading, "read_ahead", reads)
    options = make_options(
        "sample:qwen3", "sample:dflash", device="cpu", kv_cache_memory_bytes=2**20
    )
    log = make_log()
    log.report.settings |= make_log(make_options("x")).report.settings
    with pytest.raises(Refused):
        startup.boot(options, log)
    assert any(rule.startswith("SD50") for rule in rules(log))


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stderr is not None
    yield from (line.strip() for line in process.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_boot_that_hangs_in_import_and_disk(
    cache: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", _HANGING, *BOOT]
    with subprocess.Popen(
        command, env=environment(cache), cwd=cache, stderr=subprocess.PIPE, text=True
    ) as process:
        waited = {"reading", "importing"}
        for line in lines_of(process):
            waited.discard(line)
            if not waited:
                break
        process.send_signal(number)
        _, rest = process.communicate(timeout=120)  # the hang alone takes longer
    assert process.returncode == 128 + number, rest
    assert rest.rstrip().splitlines()[-1].startswith("interrupted: ")
    assert "Traceback" not in rest


def test_a_signal_ends_a_load_that_is_at_work_in_torch(cache: Path) -> None:
    command = [sys.executable, "-c", _LOOKING, *BOOT]
    with subprocess.Popen(
        command, env=environment(cache), cwd=cache, stderr=subprocess.PIPE, text=True
    ) as process:
        next(line for line in lines_of(process) if line == "looking")
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, rest
    assert rest.rstrip().splitlines()[-1].startswith("interrupted: ")


def test_threads_of_torch_are_as_many_after_a_load_as_before() -> None:
    placed, log = place()
    before = torch.get_num_threads()
    with loading.read_ahead(placed) as ahead:
        loaded = loading.load(serve.open_device(placed, log), ahead, log)
    assert torch.get_num_threads() == before
    assert loaded.runtime_bytes > 0
    assert json.dumps(log.report.not_done) == "[]"
