"""The refusal of a DSpine draft, pinned at the process level.

Whatever else is wrong (no target, a broken one, no memory, a broken driver), the refusal comes
first, with the right exit code, and nothing heavy is imported or opened.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.geometry import QWEN3_8B
from tests.process import ROOT, Finished, run, witness

HEAVY = {"torch", "numpy", "pynvml", "transformers", "safetensors.torch"}
KEY = "selected_prefix_code_bridge"

TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    **QWEN3_8B,
    "torch_dtype": "bfloat16",
}


def missing_target(folder: Path) -> Path:
    return folder / "does-not-exist"


def config_is_a_folder(folder: Path) -> Path:
    (folder / "target" / "config.json").mkdir(parents=True)
    return folder / "target"


def config_is_garbage(folder: Path) -> Path:
    (folder / "target").mkdir()
    (folder / "target" / "config.json").write_bytes(b"\xff\xfe{")
    return folder / "target"


def config_is_a_fifo(folder: Path) -> Path:
    (folder / "target").mkdir()
    os.mkfifo(folder / "target" / "config.json")
    return folder / "target"


def full_target(folder: Path) -> Path:
    (folder / "target").mkdir()
    (folder / "target" / "config.json").write_text(json.dumps(TARGET))
    (folder / "target" / "model.safetensors").write_bytes(b"never opened")
    return folder / "target"


def refused_as_dspine(done: Finished) -> None:
    assert done.code == 78, done.stderr
    assert "DSpine" in done.error_lines[0]
    assert KEY in done.stderr.split(done.error_lines[0], 1)[1].split("\nerror[", 1)[0]
    assert "Traceback" not in done.stderr
    assert done.verdict_line.startswith("refused: ")
    assert done.verdict_line.endswith("exit 78")


@pytest.mark.parametrize("draft", ["sample:dspine", "sample:dspine-invalid"])
@pytest.mark.parametrize(
    "make_target",
    [missing_target, config_is_a_folder, config_is_garbage, config_is_a_fifo, full_target],
)
def test_dspine_is_refused_first_whatever_the_target_is(
    tmp_path: Path, draft: str, make_target: Callable[[Path], Path]
) -> None:
    target = make_target(tmp_path)
    done = witness("--target", str(target), "--draft", draft, cache=tmp_path)
    refused_as_dspine(done)
    assert not HEAVY & set(done.modules)
    assert not [name for name in done.opened if name.endswith(".safetensors")]


def test_a_missing_target_is_also_told_after_the_refusal(tmp_path: Path) -> None:
    done = run("--target", "does-not-exist", "--draft", "sample:dspine", cache=tmp_path)
    refused_as_dspine(done)
    assert any("SD112" in line for line in done.error_lines[1:])
    assert "target not loaded" in done.verdict_line


def test_a_target_config_that_can_be_read_only_adds_findings(tmp_path: Path) -> None:
    target = full_target(tmp_path)
    (target / "config.json").write_text(json.dumps(TARGET | {"vocab_size": 1000}))
    done = run("--target", str(target), "--draft", "sample:dspine", cache=tmp_path)
    refused_as_dspine(done)
    assert any("SD203" in line for line in done.error_lines[1:])


def test_the_report_as_json_puts_dspine_first(tmp_path: Path) -> None:
    done = run(
        "--target", "nowhere", "--draft", "sample:dspine", "--output-format", "json", cache=tmp_path
    )
    assert done.code == 78
    report = done.json
    assert report["verdict"] == "refuse"
    assert report["exit_code"] == 78
    assert report["inputs"]["draft"]["family"] == "dspine"
    first = report["diagnostics"][0]
    assert (first["rule"], first["severity"]) == ("SD306", "error")
    assert first["locations"][0]["pointer"] == f"/dflash_config/{KEY}"


def test_no_memory_cannot_hide_the_refusal(tmp_path: Path) -> None:
    done = run(
        "--target", str(full_target(tmp_path)), "--draft", "sample:dspine",
        "--kv-cache-memory-bytes", "1", "--gpu-memory-utilization", "0.0000001",
        cache=tmp_path,
    )  # fmt: skip
    refused_as_dspine(done)
    assert "SD5" not in done.stderr


def test_a_broken_driver_or_torch_cannot_hide_the_refusal(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for module in ("pynvml", "torch", "numpy"):
        (broken / f"{module}.py").write_text("raise SystemError('imported')\n")
    (broken / "libnvidia-ml.so.1").write_text("not a library")
    env = {
        "PYTHONPATH": os.pathsep.join([str(broken), str(ROOT)]),
        "LD_LIBRARY_PATH": str(broken),
        "CUDA_VISIBLE_DEVICES": "-1,GPU-nonsense",
    }
    target = str(full_target(tmp_path))
    refused_as_dspine(run("--target", target, "--draft", "sample:dspine", cache=tmp_path, env=env))


def test_the_neighbour_of_a_dspine_draft_is_not_refused(tmp_path: Path) -> None:
    """The same command with the bridge-free sample draft passes the gate."""
    done = witness(
        "--target", "sample:qwen3", "--draft", "sample:dflash", "--check", cache=tmp_path
    )
    assert done.code == 0, done.stderr
    assert done.verdict_line.startswith("accepted")
    assert not HEAVY & set(done.modules)
