"""Boots by several ranks, as an operator starts them: one verdict, and nothing left behind."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from server.weights.sample import materialise
from tests.live import stalls
from tests.process import ROOT, SMALL, Finished, environment, run
from tests.test_boot_process import WORDS, read_until, start

TARGET = ("--target", "sample:qwen3", "--device", "cpu", *SMALL)
ONCE = ("--exit-after-boot", "--output-format", "json")
TWO = ("--tensor-parallel-size", "2")
# Two ranks; it listens on a port that is free, and keeps it.
TORCHRUN = (
    *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
    *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"),
)
_PATIENCE_S = 120


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def children(process: subprocess.Popen[str], count: int = 2) -> list[int]:
    """The ranks, once all are there."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + _PATIENCE_S
    while len(found := listed.read_text().split()) < count:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    return [int(pid) for pid in found]


def gone(pids: list[int]) -> bool:
    """True once none of the processes runs any more; one that nobody waits for is a zombie."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@contextmanager
def started(cache: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = start(cache, *TARGET, *TWO, *arguments)
    try:
        yield process
    finally:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a rank that is left holds the pipe
            process.communicate(timeout=30)


@contextmanager
def at_work(cache: Path, phase: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Two ranks that have come to a phase, and do its work until something ends them."""
    asked = (*TARGET, *TWO, *arguments)
    with stalls.started(stalls.AT_WORK, phase, *asked, cache=cache) as process:
        read_until(process, WORDS[phase])
        yield process


@pytest.mark.parametrize(("draft", "ranks"), [("sample:dflash", 2), ("sample:dspark", 4)])
def test_ranks_give_the_tokens_of_one_and_their_ledgers_close(
    cache: Path, small_boot: Callable[[str | None], Finished], draft: str, ranks: int
) -> None:
    done = run(*TARGET, "--draft", draft, "-tp", str(ranks), *ONCE, cache=cache)
    assert done.code == 0, done.stdout + done.stderr
    report, single = done.json, small_boot(draft).json
    assert report["self_test"]["tokens"] == single["self_test"]["tokens"]
    assert report["self_test"]["speculative_steps"] == 28
    assert report["settings"]["tensor_parallel_size"] == {"value": ranks, "source": "flag -tp"}
    whole = {line["line"]: line["billed_bytes"] for line in single["memory"]["ledger"]}
    assert [rank["rank"] for rank in report["memory"]["ranks"]] == list(range(ranks))
    for rank in report["memory"]["ranks"]:
        ledger = {line["line"]: line for line in rank["ledger"]}
        assert sum(line["billed_bytes"] for line in ledger.values()) == rank["limit_bytes"]
        for name in ("target weights", "draft weights"):
            assert ledger[name]["billed_bytes"] == ledger[name]["measured_bytes"]
            # Norms are whole on every rank, and with 4 ranks so are 2 KV heads on two of them.
            assert whole[name] / ranks <= ledger[name]["billed_bytes"] < whole[name] / ranks * 1.2
    kv = report["memory"]["kv"]
    assert kv["num_blocks"] == single["memory"]["kv"]["num_blocks"]
    assert kv["block_bytes"] * 2 == single["memory"]["kv"]["block_bytes"]
    assert report["memory"]["total_bytes"] * ranks <= single["memory"]["total_bytes"]
    assert any("share this host" in note for note in report["memory"]["notes"])
    assert report["not_done"] == []


def test_what_does_not_fit_is_refused_by_the_launcher_alone(cache: Path) -> None:
    done = run(*TARGET, *TWO, "--kv-cache-memory-bytes", "128KiB", cache=cache)
    assert done.code == 69, done.stderr
    assert len(done.error_lines) == 1
    assert "target not loaded" in done.verdict_line


@pytest.mark.parametrize(
    ("arguments", "code", "rule"),
    [
        (("--check", "-tp", "3"), 78, "SD505"),
        (("--check", "-tp", "2", "--weights", "mapped"), 2, "SD705"),
        (("--check", "-tp", "2", "--device", "cuda:1"), 2, "SD705"),
    ],
)
def test_ranks_that_cannot_be_are_refused_at_the_gate(
    cache: Path, arguments: tuple[str, ...], code: int, rule: str
) -> None:
    done = run("--target", "sample:qwen3", *arguments, cache=cache)
    assert done.code == code, done.stderr
    assert {line[:12] for line in done.error_lines} == {f"error[{rule}]"}


def broken(cache: Path, tmp_path: Path) -> Path:
    """A target of which only the last rank's part of the head holds what is no number."""
    folder = tmp_path / "target"
    shutil.copytree(materialise("sample:qwen3", cache), folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shard = folder / index["weight_map"]["lm_head.weight"]
    data = bytearray(shard.read_bytes())
    length = int.from_bytes(data[:8], "little")
    end = 8 + length + json.loads(data[8 : 8 + length])["lm_head.weight"]["data_offsets"][1]
    data[end - 2 : end] = b"\xc0\x7f"  # NaN as BF16
    shard.write_bytes(data)
    return folder


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_fault_that_one_rank_sees_is_told_once_and_all_end_with_its_code(
    cache: Path, tmp_path: Path, form: str
) -> None:
    report = tmp_path / "report.json"
    done = run(
        "--target", str(broken(cache, tmp_path)), "--device", "cpu", *SMALL, *TWO,
        "--output-format", form, "--report-file", str(report), cache=cache,
    )  # fmt: skip
    assert done.code == 65, done.stderr
    told = json.loads(report.read_text())
    assert [found["rule"] for found in told["diagnostics"] if found["severity"] == "error"] == [
        "SD418"
    ]
    if form == "json":
        assert done.json == told
        assert done.stderr == ""
    else:
        assert [line[:12] for line in done.error_lines] == ["error[SD418]"]
        assert done.stderr.count("refused: ") == 1


@pytest.mark.parametrize("phase", ["load", "self-test"])
def test_a_rank_that_is_killed_ends_all(cache: Path, phase: str) -> None:
    with at_work(cache, phase) as process:
        ranks = children(process)
        os.kill(ranks[1], signal.SIGKILL)
        _, rest = process.communicate(timeout=_PATIENCE_S)
        assert process.returncode == 75, rest
        assert rest.count("error[SD609] rank-lost: rank 1 of 2 was ended by SIGKILL") == 1
        assert rest.rstrip().splitlines()[-1].startswith("refused: 1 error")
        assert gone(ranks)


def test_a_rank_that_is_killed_after_ready_is_told_too(cache: Path) -> None:
    with started(cache, "--output-format", "json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "}\n":
                break
        ranks = children(process)
        os.kill(ranks[0], signal.SIGKILL)
        out, rest = process.communicate(timeout=_PATIENCE_S)
        assert (process.returncode, out) == (75, "")
        assert rest.startswith("error[SD609] rank-lost: rank 0 of 2 was ended by SIGKILL")
        assert gone(ranks)


@pytest.mark.parametrize(
    ("number", "hangs"), [(signal.SIGTERM, False), (signal.SIGINT, True)], ids=["TERM", "INT, hung"]
)
def test_a_signal_ends_the_hold_of_every_rank(
    cache: Path, number: signal.Signals, hangs: bool
) -> None:
    with started(cache) as process:
        seen = read_until(process, "ready:")
        assert sum(line.startswith("accepted: ") for line in seen) == 1
        ranks = children(process)
        if hangs:
            os.kill(ranks[1], signal.SIGSTOP)
        process.send_signal(number)
        process.send_signal(number)  # an impatient operator changes nothing
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 0, rest
        assert rest == f"{number.name}: models and KV pool released; exit 0\n"
        assert gone(ranks)


@pytest.mark.parametrize("phase", ["load", "self-test"])
def test_a_signal_in_a_phase_ends_every_rank_with_one_verdict(cache: Path, phase: str) -> None:
    with at_work(cache, phase, "--draft", "sample:dspark") as process:
        ranks = children(process)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 143, rest
        assert "Traceback" not in rest
        assert rest.count("interrupted: ") == 1
        assert rest.rstrip().splitlines()[-1].startswith("interrupted: ")
        assert gone(ranks)


def test_no_rank_outlives_a_launcher_that_is_killed(cache: Path) -> None:
    with started(cache) as process:
        ranks = children(process)
        read_until(process, "profile ...")
        os.kill(ranks[1], signal.SIGSTOP)  # deaf to all but SIGKILL
        process.kill()
        assert gone(ranks)


def torchrun(cache: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TORCHRUN, *command],
        env=environment(cache, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}),
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_rank_of_torchrun_that_is_killed_is_told_by_another(cache: Path, tmp_path: Path) -> None:
    script = tmp_path / "rank.sh"
    told, report_file = tmp_path / "told", tmp_path / "report.json"
    # The other rank is at work, and so misses it; on hold it would not.
    program = (sys.executable, "-c", stalls.AT_WORK, "profile", *TARGET, *TWO)
    lines = [
        "#!/bin/sh",
        "trap : TERM",
        f"{shlex.join((*program, '--report-file', str(report_file)))} 2>{told}-$RANK & pid=$!",
        f"until grep -q 'profile ...' {told}-0; do sleep 0.05; done",
        'if [ "$RANK" = 1 ]; then kill -KILL $pid; fi',
        # torchrun's own signal comes once this script ends.
        f"for _ in $(seq {20 * _PATIENCE_S}); do [ -e {report_file} ] && break; sleep 0.05; done",
        "while kill -0 $pid 2>/dev/null; do wait $pid; done; exit 1",
    ]
    script.write_text("\n".join(lines))
    script.chmod(0o755)
    torchrun(cache, "--no-python", str(script))
    report = json.loads(report_file.read_text())
    errors = [found for found in report["diagnostics"] if found["severity"] == "error"]
    assert [found["rule"] for found in errors] == ["SD609"]
    assert report["exit_code"] == 75
    assert "rank 0 of 2 lost the others" in (tmp_path / "told-0").read_text()


@contextmanager
def under_torchrun(cache: Path, moment: str) -> Iterator[subprocess.Popen[str]]:
    """Two ranks of torchrun, once one of them has said `moment`."""
    command = [*TORCHRUN, "-m", "server", *TARGET, *TWO]
    env = environment(cache, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
    with subprocess.Popen(
        command, env=env, cwd=cache, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(moment):
                break
        yield process


@pytest.mark.parametrize(("killed", "moment"), [(1, "profile ..."), (0, "ready:"), (1, "ready:")])
def test_a_rank_that_torchrun_finds_killed_is_lost_and_no_signal_to_the_others(
    cache: Path, killed: int, moment: str
) -> None:
    with under_torchrun(cache, moment) as process:
        (pid,) = [pid for pid in children(process) if rank_of(pid) == str(killed)]
        os.kill(pid, signal.SIGKILL)
        assert process.stderr is not None
        said = process.stderr.read()
    assert len(re.findall(r"error\[SD609\] rank-lost: rank [01] of 2", said)) == 1, said
    assert "SD606" not in said
    ends = [line for line in said.splitlines() if re.search(r"exit \d+$", line)]
    assert len(ends) == 1, said
    assert ends[0].endswith("exit 75")


def rank_of(pid: int) -> str | None:
    """The rank of a process that torchrun started."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    found = [entry for entry in entries if entry.startswith(b"RANK=")]
    return found[0].decode().removeprefix("RANK=") if found else None


def test_a_signal_to_torchrun_is_told_as_that(cache: Path) -> None:
    with under_torchrun(cache, "ready:") as process:
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read()
    assert "SD609" not in said
    assert "SIGTERM: models and KV pool released; exit 0" in said


def test_torchrun_starts_the_ranks_and_one_speaks(
    cache: Path, small_boot: Callable[[str | None], Finished]
) -> None:
    arguments = (*TARGET, "--draft", "sample:dflash", *TWO, *ONCE)
    done = torchrun(cache, "-m", "server", *arguments)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)  # of one rank: two documents would be no JSON
    alone = small_boot("sample:dflash").json
    assert report["self_test"]["tokens"] == alone["self_test"]["tokens"]
    assert len(report["memory"]["ranks"]) == 2


def as_torchrun(
    cache: Path, commands: Sequence[Sequence[str]]
) -> list[subprocess.CompletedProcess[str]]:
    """A rank for each command, in what torchrun gives to its own; none is ended with another."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = str(len(commands))
    given = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "TORCHELASTIC_RESTART_COUNT": "0"}
    given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    given |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}

    def rank(number: int) -> subprocess.CompletedProcess[str]:
        own = {"RANK": str(number), "LOCAL_RANK": str(number)}
        return subprocess.run(
            [sys.executable, "-m", "server", *commands[number]],
            env=environment(cache, given | own),
            cwd=cache,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    with ThreadPoolExecutor() as pool:
        return list(pool.map(rank, range(len(commands))))


@pytest.mark.parametrize(
    ("first", "second", "code", "rule"),
    [
        (("--target", "x", "--draft", "sample:dspine"), None, 78, "SD306"),
        (("--target", "sample:qwen3"), ("--target", "not-there"), 66, "SD112"),
        (("--target", "sample:qwen3", "-tp", "4"), None, 2, "SD709"),
    ],
    ids=["both", "only rank 1", "size"],
)
def test_a_refusal_under_torchrun_is_told_once_by_the_rank_that_knows(
    cache: Path, first: tuple[str, ...], second: tuple[str, ...] | None, code: int, rule: str
) -> None:
    size = () if "-tp" in first else TWO
    rest = ("--device", "cpu", *SMALL, *size, "--exit-after-boot")
    ranks = as_torchrun(cache, [(*words, *rest) for words in (first, second or first)])
    told = "".join(rank.stderr for rank in ranks)
    assert [rank.returncode for rank in ranks] == [code] * 2, told
    errors = [line for line in told.splitlines() if line.startswith("error[")]
    assert sum(line.startswith(f"error[{rule}]") for line in errors) == 1
    assert len({line[:12] for line in errors}) == len(errors)
