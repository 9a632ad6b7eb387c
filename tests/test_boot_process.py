"""A whole boot as an operator would start it: what it prints, holds, and how it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from server.weights.sample import materialise
from tests.live.stalls import AT_WORK, started
from tests.process import SMALL, Finished, environment, run, witness
from tests.schema import faults

TARGET = ("--target", "sample:qwen3", "--device", "cpu")
DFLASH = (*TARGET, "--draft", "sample:dflash")
ONCE = "--exit-after-boot"
# What a boot says as it comes to a phase.
WORDS = {"load": "load target", "profile": "profile ...", "self-test": "self-test ..."}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("draft", ["sample:dflash", "sample:dspark", None])
def test_a_sample_boots_and_its_ledger_closes(
    small_boot: Callable[[str | None], Finished], draft: str | None
) -> None:
    done = small_boot(draft)
    assert done.code == 0, done.stdout + done.stderr
    report = done.json
    assert (report["verdict"], report["exit_code"]) == ("accept", 0)
    memory = report["memory"]
    ledger = {line["line"]: line for line in memory["ledger"]}
    assert sum(line["billed_bytes"] for line in ledger.values()) == memory["limit_bytes"]
    assert "SD507" not in {found["rule"] for found in report["diagnostics"]}
    assert ledger["KV pool"]["billed_bytes"] == ledger["KV pool"]["measured_bytes"]
    weights = [line for name, line in ledger.items() if name.endswith("weights")]
    assert len(weights) == (2 if draft else 1)
    assert all(line["billed_bytes"] == line["measured_bytes"] for line in weights)
    proof = report["self_test"]
    assert proof["new_tokens"] == proof["paged_steps"] == 28
    if draft:
        assert proof["speculative_steps"] == 28
        assert max(proof["accepted"]) > 1
    assert report["not_done"] == []
    assert faults(report) == []


def test_a_step_that_no_memory_holds_is_refused_before_torch(cache: Path) -> None:
    absurd = ("--max-num-batched-tokens", str(2**31 - 1), "--max-num-seqs", "1")
    done = witness(*DFLASH, *absurd, ONCE, cache=cache)
    assert done.code == 69
    assert "--max-num-batched-tokens is 2147483647: a prefill step of" in done.stderr
    assert "--max-num-seqs is" not in done.stderr
    assert done.verdict_line.startswith("refused: 1 error")
    assert "torch" not in done.modules


class Told(NamedTuple):
    """What a boot said, and the report in its file."""

    done: Finished
    report: dict[str, Any]


@pytest.fixture(scope="module")
def capped(cache: Path) -> Told:
    """A boot with an fp8 pool and fewer drafted tokens, told as text."""
    asked = ("--kv-cache-dtype", "fp8", "--num-speculative-tokens", "3")
    done = run(*DFLASH, *SMALL, ONCE, *asked, "--report-file", "capped.json", cache=cache)
    assert done.code == 0, done.stderr
    return Told(done, json.loads((cache / "capped.json").read_text()))


def test_a_cap_on_drafted_tokens_is_served(capped: Told) -> None:
    assert max(capped.report["self_test"]["offered"]) == 3


def test_an_fp8_pool_is_half_as_large_and_proven(capped: Told) -> None:
    report = capped.report
    kv = report["memory"]["kv"]
    assert (kv["target_bytes_per_token"], kv["draft_bytes_per_token"]) == (2048, 2048)
    assert (kv["target_dtype"], kv["draft_dtype"]) == ("fp8_e4m3", "bfloat16")
    assert report["settings"]["draft_kv_cache_dtype"] == {
        "value": "bfloat16", "source": "what is computed in",
    }  # fmt: skip
    (pool,) = [line for line in report["memory"]["ledger"] if line["line"] == "KV pool"]
    assert pool["billed_bytes"] == pool["measured_bytes"] == kv["num_blocks"] * 16 * 4096
    proof = report["self_test"]
    assert proof["kv_blocks"] == kv["num_blocks"]
    assert proof["paged_steps"] == proof["new_tokens"] == 28


def test_a_pool_wider_than_what_is_computed_is_a_usage_error(cache: Path) -> None:
    done = run(*DFLASH, *SMALL, ONCE, "--draft-kv-cache-dtype", "fp32", cache=cache)
    assert done.code == 2
    assert done.error_lines == [
        "error[SD705] flags-conflict: --draft-kv-cache-dtype is float32, and the dtype is "
        "bfloat16, which is narrower"
    ]


def test_the_text_ends_with_the_verdict_and_tells_the_ledger(capped: Told) -> None:
    done = capped.done
    assert done.stdout == ""
    assert "KV pool" in done.stderr
    assert done.verdict_line.startswith("accepted: ")
    assert done.verdict_line.endswith("exit 0")


def start(cache: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "server", *arguments],
        env=environment(cache),
        cwd=cache,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if words in line:
            return seen
    raise AssertionError(f"never said {words!r}: {''.join(seen)}")


def test_what_was_loaded_is_held_until_a_signal(cache: Path) -> None:
    """SIGINT; tests/live ends a hold by SIGTERM."""
    process = start(cache, *DFLASH, *SMALL)
    seen = read_until(process, "ready:")
    assert any(line.startswith("accepted: ") for line in seen)
    time.sleep(0.2)
    assert process.poll() is None
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)  # an impatient operator changes nothing
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == "SIGINT: models and KV pool released; exit 0\n"


@pytest.mark.parametrize("phase", ["profile", "self-test"])
def test_a_signal_in_a_phase_ends_the_boot_with_a_verdict(
    cache: Path, tmp_path: Path, phase: str
) -> None:
    path = tmp_path / "report.json"
    asked = (*TARGET, "--draft", "sample:dspark", "--report-file", str(path))
    with started(AT_WORK, phase, *asked, cache=cache) as process:
        read_until(process, WORDS[phase])
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 143, rest
    assert "Traceback" not in rest
    assert rest.rstrip().splitlines()[-1].startswith("interrupted: ")
    assert json.loads(path.read_text())["exit_code"] == 143
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_that_went_away_does_not_change_the_exit_code(cache: Path) -> None:
    for arguments in ((*DFLASH, "--check"), ("--target", "x", "--draft", "sample:dspine")):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "server", *arguments, "--output-format", "json"]
        done = subprocess.run(
            command, env=environment(cache), cwd=cache, stdout=writer, stderr=writer, check=False
        )
        os.close(writer)
        assert done.returncode == (0 if "--check" in arguments else 78)


def test_the_report_file_is_written_for_a_refusal_too(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = run("--target", "x", "--draft", "sample:dspine", "--report-file", str(path), cache=cache)
    assert done.code == 78
    assert json.loads(path.read_text())["verdict"] == "refuse"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_report_file_is_told_before_the_load(cache: Path, tmp_path: Path) -> None:
    done = run(*DFLASH, ONCE, "--report-file", str(tmp_path / "no" / "r.json"), cache=cache)
    assert done.code == 66
    assert done.error_lines[0].startswith("error[SD707]")
    assert "target not loaded" in done.verdict_line


def no_traceback(codes: Sequence[int], *arguments: str, cache: Path) -> None:
    done = run(*arguments, cache=cache)
    assert done.code in codes, done.stderr
    assert "Traceback" not in done.stderr
    assert done.verdict_line.startswith("refused: ")


def test_what_does_not_fit_is_refused_before_anything_is_loaded(cache: Path) -> None:
    no_traceback((69, 75), *DFLASH, "--gpu-memory-utilization", "0.0001", cache=cache)
    no_traceback((69,), *DFLASH, "--kv-cache-memory-bytes", "1MiB", cache=cache)


def test_cuda_without_a_device_is_refused(cache: Path) -> None:
    env = {"CUDA_VISIBLE_DEVICES": ""}
    done = run("--target", "sample:qwen3", "--device", "cuda", cache=cache, env=env)
    assert done.code == 69
    assert done.error_lines[0].startswith("error[SD601]")


def test_a_bare_config_is_judged_but_not_booted(cache: Path, tmp_path: Path) -> None:
    bare = tmp_path / "target.json"
    shutil.copy(materialise("sample:qwen3", cache) / "config.json", bare)
    checked = run("--target", str(bare), "--check", cache=cache)
    assert checked.code == 0, checked.stderr
    assert "skipped: tensor rules" in checked.stderr
    booted = run("--target", str(bare), cache=cache)
    assert booted.code == 66
    assert booted.error_lines[0].startswith("error[SD405]")
