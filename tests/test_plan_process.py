"""`--plan` as an operator would ask for it: what fits where, from the files alone."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.weights.sample import materialise
from tests.pair_8b import BLOCK_BYTES, DRAFT_BYTES, TARGET_BYTES, write_pair
from tests.process import ROOT, SMALL, Finished, run, witness

GIB = 2**30
SAMPLE = ("--target", "sample:qwen3", "--draft", "sample:dflash", "--device", "cpu")
AS_JSON = ("--output-format", "json")
FIXED_BYTES = TARGET_BYTES + DRAFT_BYTES + 150 * 2**20


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    target, draft = write_pair(tmp_path_factory.mktemp("pair"))
    return ("--target", str(target), "--draft", str(draft), "--plan")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def billed(memory: dict[str, Any]) -> dict[str, int]:
    assert all(line["measured_bytes"] is None for line in memory["ledger"])
    return {line["line"]: line["billed_bytes"] for line in memory["ledger"]}


def test_a_pool_of_10_gib_holds_3996_blocks(pair: tuple[str, ...], cache: Path) -> None:
    asked = ("--assume-gpu", "a100-80g", "--kv-cache-memory-bytes", "10GiB", *AS_JSON)
    done = run(*pair, *asked, cache=cache)
    assert done.code == 0, done.stdout
    report = done.json
    assert report["not_done"] == ["target not loaded", "device not touched"]
    (answer,) = report["plan"]["answers"]
    assert answer["memory"] == report["memory"]
    assert answer["fits"]
    lines = billed(report["memory"])
    assert lines["target weights"] == 16_381_470_720
    assert lines["draft weights"] == 2_097_252_864
    kv = report["memory"]["kv"]
    assert (kv["block_bytes"], kv["num_blocks"], kv["usable_tokens"]) == (2_686_976, 3_996, 63_920)
    assert (kv["max_model_len"], kv["full_length_requests"]) == (40_944, 1)
    assert report["plan"]["predicted"]
    # 8192 rows of 5 captured layers and of the widened feed-forward part are there at once.
    assert lines["activation"] > 8192 * (5 * 4096 + 2 * 12288) * 2
    assert sum(lines.values()) == report["memory"]["limit_bytes"]


@pytest.mark.parametrize(
    ("ranks", "num_blocks", "target_bytes"),
    [(2, 7_992, 8_191_043_584), (8, 31_968, 2_048_223_232), (16, 31_968, 1_062_168_576)],
)
def test_10_gib_on_each_of_several_ranks(
    pair: tuple[str, ...], cache: Path, ranks: int, num_blocks: int, target_bytes: int
) -> None:
    asked = ("--assume-memory", "80GiB", "--kv-cache-memory-bytes", "10GiB", "--no-predict")
    done = run(*pair, *asked, "-tp", str(ranks), *AS_JSON, cache=cache)
    assert done.code == 0, done.stdout
    memory = done.json["memory"]
    assert memory["kv"]["num_blocks"] == num_blocks
    assert billed(memory)["target weights"] == target_bytes
    assert any(note.startswith(f"{ranks} ranks: ") for note in memory["notes"])


@pytest.mark.parametrize(("ranks", "code"), [(5, 78), (4, 0), (8, 0)])
def test_5_ranks_divide_40_heads_and_not_8_kv_heads(
    pair: tuple[str, ...], cache: Path, tmp_path: Path, ranks: int, code: int
) -> None:
    config = json.loads((Path(pair[1]) / "config.json").read_text())
    path = tmp_path / "wider.json"
    path.write_text(json.dumps(config | {"num_attention_heads": 40, "hidden_size": 5120}))
    done = run("--target", str(path), "--check", "-tp", str(ranks), *AS_JSON, cache=cache)
    assert done.code == code, done.stdout
    found = {d["rule"] for d in done.json["diagnostics"] if d["severity"] == "error"}
    assert found == ({"SD505"} if code else set())


def test_what_needs_no_prediction_needs_no_torch_and_reads_no_weight(
    pair: tuple[str, ...], cache: Path
) -> None:
    seen = witness(*pair, "--no-predict", "--assume-memory", "80GiB", *AS_JSON, cache=cache)
    assert seen.code == 0, seen.stdout
    assert not {"torch", "numpy", "pynvml"} & set(seen.modules)
    assert billed(seen.json["memory"])["activation"] == 0
    assert not seen.json["plan"]["predicted"]
    assert any("a lower bound" in note for note in seen.json["memory"]["notes"])


def test_a_pool_that_is_too_large_for_the_device_leaves_no_length(
    pair: tuple[str, ...], cache: Path
) -> None:
    asked = ("--no-predict", "--assume-memory", "80GiB", "--kv-cache-memory-bytes", "80GiB")
    done = run(*pair, *asked, cache=cache)
    assert done.code == 69
    assert "  does not fit; no length fits these settings\n" in done.stderr
    assert "  longest  40944  (tokens in " in done.stderr


@pytest.mark.parametrize("fits", [True, False])
def test_the_longest_length_is_exact(pair: tuple[str, ...], cache: Path, fits: bool) -> None:
    """23 GiB leave a part of the blocks that the models' own length needs."""
    asked = (*pair, "--no-predict", "--assume-memory", "23GiB", "--gpu-memory-utilization", "1")
    blocks = (23 * GIB - FIXED_BYTES) // BLOCK_BYTES
    longest = (blocks - 1) * 16 - 16
    length = longest if fits else longest + 1
    done = run(*asked, "--max-model-len", str(length), *AS_JSON, cache=cache)
    assert done.code == (0 if fits else 69)
    (answer,) = done.json["plan"]["answers"]
    assert (answer["fits"], answer["longest_tokens"]) == (fits, longest)
    assert [found["rule"] for found in done.json["diagnostics"]] == ([] if fits else ["SD502"])


def test_each_card_has_its_own_answer_and_the_smallest_is_named(
    pair: tuple[str, ...], cache: Path
) -> None:
    cards = ("--assume-gpu", "l4-24g", "--assume-gpu", "a100-40g", "--assume-memory", "16GiB")
    done = run(*pair, *cards, "--no-predict", *AS_JSON, cache=cache)
    assert done.code == 69
    assert done.json["memory"] is None
    plan = done.json["plan"]
    answers = {one["memory"]["device"]: one for one in plan["answers"]}
    assert [one["fits"] for one in plan["answers"]] == [False, True, False]
    assert [found["rule"] for found in done.json["diagnostics"]] == ["SD502", "SD501"]
    assert answers["cuda:0 16.00 GiB, assumed"]["longest_tokens"] == 0
    assert plan["smallest_gpu"] == "v100-32g"
    smallest = run(*pair, "--assume-gpu", "v100-32g", "--no-predict", cache=cache)
    assert smallest.code == 0, smallest.stderr
    assert smallest.verdict_line.startswith("accepted: ")
    assert "  fits, with requests of up to 40944 tokens; " in smallest.stderr
    assert "smallest GPU on which it fits: v100-32g" in smallest.stderr


def test_a_plan_for_this_machine_predicts_what_its_boot_measures(
    cache: Path, small_boot: Callable[[str | None], Finished]
) -> None:
    planned = run(*SAMPLE, *SMALL, "--plan", *AS_JSON, cache=cache)
    booted = small_boot("sample:dflash")
    assert (planned.code, booted.code) == (0, 0), planned.stdout + booted.stdout
    plan, boot = planned.json["memory"], booted.json["memory"]
    assert plan["kv"] == boot["kv"]
    assert plan["total_bytes"] == boot["total_bytes"]
    lines = {line["line"]: line["billed_bytes"] for line in boot["ledger"]}
    assert billed(plan)["activation"] == pytest.approx(lines["activation"], rel=0.05)
    for name in ("target weights", "draft weights", "margin", "KV pool"):
        assert billed(plan)[name] == lines[name]


def without_torch(tmp_path: Path, cache: Path, *arguments: str) -> Finished:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    path = {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    return run(*arguments, *AS_JSON, cache=cache, env=path)


def test_without_torch_the_peak_is_left_out_and_told(
    pair: tuple[str, ...], cache: Path, tmp_path: Path
) -> None:
    done = without_torch(tmp_path, cache, *pair, "--assume-gpu", "h100-80g")
    assert done.code == 0, done.stdout
    assert billed(done.json["memory"])["activation"] == 0
    told = "activation: not predicted (torch cannot be imported: no torch here); "
    assert any(note.startswith(told) for note in done.json["memory"]["notes"])


def test_a_prediction_that_is_demanded_needs_torch(
    pair: tuple[str, ...], cache: Path, tmp_path: Path
) -> None:
    done = without_torch(tmp_path, cache, *pair, "--assume-gpu", "h100-80g", "--predict")
    assert [found["rule"] for found in done.json["diagnostics"]] == ["SD607"]
    assert done.code == done.json["exit_code"] != 0


def test_a_plan_needs_the_headers(cache: Path, tmp_path: Path) -> None:
    bare = tmp_path / "target.json"
    shutil.copy(materialise("sample:qwen3", cache) / "config.json", bare)
    done = run("--target", str(bare), "--plan", cache=cache)
    assert done.code == 66
    assert done.error_lines[0].startswith("error[SD405]")


def test_a_device_that_is_not_there_has_no_plan(cache: Path) -> None:
    done = run(
        *SAMPLE[:4], "--device", "cuda", "--plan", cache=cache, env={"CUDA_VISIBLE_DEVICES": ""}
    )
    assert done.code == 69
    assert done.error_lines[0].startswith("error[SD601]")
