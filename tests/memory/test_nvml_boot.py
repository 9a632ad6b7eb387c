"""Whole boots up to the device, over a library in place of the driver's.

The only visible GPU is one that the library alone knows, so that torch sees none anywhere.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.memory.nvml_stand_in import IMPATIENT, StandIn, compiled, gpu, script
from tests.process import ROOT, Finished, run

MIB, GIB = 2**20, 2**30
PAIR = ("--target", "sample:qwen3", "--draft", "sample:dflash", "--exit-after-boot")
CUDA = (*PAIR, "--device", "cuda", "--output-format", "json")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    return compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture
def boot(library: StandIn, tmp_path: Path) -> Any:  # noqa: ANN401
    def booted(told: str, *flags: str, env: Mapping[str, str] | None = None) -> Finished:
        library.script.write_text(told)
        shown = {"CUDA_VISIBLE_DEVICES": "GPU-aaaa-1", **library.environment}
        return run(*flags, cache=tmp_path, env={**shown, **(env or {})})

    return booted


def errors(done: Finished) -> list[dict[str, Any]]:
    assert "Traceback" not in done.stderr
    return [found for found in done.json["diagnostics"] if found["severity"] == "error"]


def test_a_gpu_too_small_for_the_weights_is_refused_before_torch(boot: Any) -> None:  # noqa: ANN401
    done = boot(script(gpu("a", total=16 * MIB, free=15 * MIB, reserved=MIB)), *CUDA)
    (refusal,) = errors(done)
    assert (done.code, refusal["rule"]) == (69, "SD501")
    assert done.json["memory"]["device"] == "cuda:0 Card a"
    assert done.json["memory"]["total_bytes"] == 16 * MIB
    assert "torch" not in [phase["name"] for phase in done.json["phases"]]


def test_who_holds_the_memory_is_told_with_pid_and_bytes(boot: Any) -> None:  # noqa: ANN401
    users = f"4711:{79 * GIB} 4712:?"
    done = boot(script(gpu("a", free=MIB, reserved=0, processes=users)), *CUDA)
    (refusal,) = errors(done)
    assert (done.code, refusal["rule"]) == (75, "SD503")
    told = [(place["source"], place["value"]) for place in refusal["locations"]]
    assert ("host pid 4711, in bytes", 79 * GIB) in told
    assert ("host pid 4712, in bytes", None) in told
    assert any("host pid 4711 79.00 GiB" in note for note in done.json["memory"]["notes"])


def test_a_gpu_that_torch_cannot_use_is_refused_with_what_nvml_says(boot: Any) -> None:  # noqa: ANN401
    lost = {"nvmlDeviceGetMemoryInfo": 15, "nvmlDeviceGetMemoryInfo_v2": 15}
    done = boot(script(gpu("a", **lost)), *CUDA)
    (refusal,) = errors(done)
    assert (done.code, refusal["rule"]) == (69, "SD601")
    assert {"cuda:0 Card a"} == {place["value"] for place in refusal["locations"]}


@pytest.mark.parametrize("value", ["0,0", "1", "-1", "", "GPU-zzzz"])
def test_a_variable_that_shows_no_gpu_is_named(boot: Any, value: str) -> None:  # noqa: ANN401
    done = boot(script(gpu("a")), *CUDA, env={"CUDA_VISIBLE_DEVICES": value})
    (refusal,) = errors(done)
    assert (done.code, refusal["rule"]) == (69, "SD601")
    assert "CUDA_VISIBLE_DEVICES" in refusal["message"]


@pytest.mark.parametrize("init", ["9", "18", "hang"])
def test_the_host_is_served_where_nvml_fails(boot: Any, tmp_path: Path, init: str) -> None:  # noqa: ANN401
    """A hanging NVML costs its time limit once, and no GPU node means no second question."""
    tiny = ("--gpu-memory-utilization", "0.000001", "--output-format", "json")
    env = {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))} if init == "hang" else {}
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    done = boot(script(gpu("a"), nvmlInit=init), *PAIR, *tiny, env=env)
    (refusal,) = errors(done)
    assert (done.code, refusal["rule"]) == (69, "SD501")
    assert done.json["memory"]["device"] == "cpu host memory"
    notes = [found for found in done.json["diagnostics"] if found["rule"] == "SD603"]
    why = "no answer in 0.2 s" if init == "hang" else ""
    assert notes[0]["message"].startswith(f"NVML: unavailable ({why}")
