"""Samples: written whole or not at all, equal everywhere, and good by the server's own rules."""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from server.config.draft import ensure_servable, read_draft
from server.config.pair import Asked, Pair, judge_pair
from server.config.target import read_target
from server.findings import Severity
from server.weights import sample, sample_tensors
from server.weights.index import read_inventory
from server.weights.judge import judge_tensors
from server.weights.layout import draft_layout, target_layout
from server.weights.sample import SAMPLE_NAMES, SampleError, materialise
from tests.weights.make import rules_of

ABSORBING, MASK = 0, 2047


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder, read by the safetensors package."""
    found: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        found |= {name: tensor.float() for name, tensor in load_file(file).items()}
    return found


def digest(folder: Path) -> str:
    files = sorted(folder.iterdir())
    return hashlib.sha256(b"".join(f.name.encode() + f.read_bytes() for f in files)).hexdigest()


def test_target_passes_every_check(cache: Path) -> None:
    folder = materialise("sample:qwen3", cache)
    target = read_target(folder / "config.json", strict=True)
    assert target.reading is not None
    assert target.reading.record is not None
    assert not target.outcome.findings
    inventory, files = read_inventory("target", folder)
    assert inventory is not None
    assert len(inventory.shards) == 3
    layout = target_layout(target.reading.record)
    plan, tensors = judge_tensors(inventory, layout, target.reading)
    assert plan is not None
    assert not (files + tensors).findings


@pytest.mark.parametrize(("name", "left"), [("dflash", []), ("dspark", ["SD416"])])
def test_drafts_fit_the_target(cache: Path, name: str, left: list[str]) -> None:
    folder = materialise(f"sample:{name}", cache)
    draft = read_draft(folder / "config.json", strict=True)
    assert draft.family == name
    assert draft.reading is not None
    assert draft.reading.record is not None
    target = read_target(materialise("sample:qwen3", cache) / "config.json", strict=True)
    assert target.reading is not None
    pair = judge_pair(Pair(draft.reading, target.reading, Asked("bfloat16", None, None, {})))
    assert not (draft.outcome + ensure_servable(draft, "auto") + pair).findings
    inventory, files = read_inventory("draft", folder)
    assert inventory is not None
    layout = draft_layout(draft.reading.record)
    plan, tensors = judge_tensors(inventory, layout, draft.reading)
    assert plan is not None
    assert rules_of(files + tensors) == left


def test_a_valid_dspine_draft_is_refused_for_being_one(cache: Path) -> None:
    draft = read_draft(materialise("sample:dspine", cache) / "config.json", strict=True)
    assert draft.family == "dspine"
    assert not draft.outcome.findings
    assert rules_of(ensure_servable(draft, "auto")) == ["SD306"]
    target = read_target(materialise("sample:qwen3", cache) / "config.json", strict=True)
    assert draft.reading is not None
    assert target.reading is not None
    pair = judge_pair(Pair(draft.reading, target.reading, Asked("bfloat16", None, None, {})))
    assert not pair.findings


def test_an_invalid_dspine_draft_breaks_most_rules_at_once(cache: Path) -> None:
    draft = read_draft(materialise("sample:dspine-invalid", cache) / "config.json", strict=False)
    assert draft.family == "dspine"
    errors = {f.rule for f in draft.outcome.findings if f.severity is Severity.ERROR}
    dspine = [rule for rule in sorted(errors) if "SD321" <= rule <= "SD336"]
    assert len(dspine) >= 14, dspine
    assert rules_of(ensure_servable(draft, "auto")) == ["SD306"]


def test_next_token_is_half_of_the_token(cache: Path) -> None:
    """What the layers disturb is left out here; a test of the model decodes for real."""
    target = tensors_of(materialise("sample:qwen3", cache))
    embedding, head = target["model.embed_tokens.weight"], target["lm_head.weight"]
    normed = embedding / embedding.pow(2).mean(-1, keepdim=True).sqrt()
    best = (normed @ head.T).topk(2)
    following = best.indices[:, 0]
    expected = torch.arange(2048) // 2
    expected[MASK] = ABSORBING
    assert torch.equal(following, expected)
    assert float((best.values[:, 0] - best.values[:, 1]).min()) > 2


def test_markov_head_knows_most_successors(cache: Path) -> None:
    draft = tensors_of(materialise("sample:dspark", cache))
    bias = draft["markov_head.markov_w1.weight"] @ draft["markov_head.markov_w2.weight"].T
    right = bias.argmax(-1) == torch.arange(2048) // 2
    assert int(right.sum()) == 2048 * 7 // 8
    assert bool(right[ABSORBING])


def test_flat_draft_ships_the_targets_embedding_and_head(cache: Path) -> None:
    target = tensors_of(materialise("sample:qwen3", cache))
    draft = tensors_of(materialise("sample:dspark", cache))
    assert torch.equal(draft["embed_tokens.weight"], target["model.embed_tokens.weight"])
    assert torch.equal(draft["lm_head.weight"], target["lm_head.weight"])


def test_layer_weights_are_centred_and_differ(cache: Path) -> None:
    target = tensors_of(materialise("sample:qwen3", cache))
    first = target["model.layers.0.self_attn.q_proj.weight"]
    assert float(first.mean()) == pytest.approx(0.0, abs=2e-4)
    assert float(first.std()) == pytest.approx(0.02, rel=0.02)
    assert not torch.equal(first, target["model.layers.1.self_attn.q_proj.weight"])
    assert bool((target["model.layers.0.input_layernorm.weight"] == 1).all())


def test_samples_are_the_same_everywhere(cache: Path, tmp_path: Path) -> None:
    for name in SAMPLE_NAMES:
        assert digest(materialise(name, cache)) == digest(materialise(name, tmp_path))


def test_a_complete_sample_is_not_written_again(cache: Path) -> None:
    folder = materialise("sample:dflash", cache)
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert materialise("dflash", cache) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest", "file", "torn"])
def test_a_damaged_sample_is_written_anew(cache: Path, tmp_path: Path, damage: str) -> None:
    good = digest(materialise("sample:dflash", cache))
    folder = materialise("sample:dflash", tmp_path)
    weights = folder / "model.safetensors"
    if damage == "cut":
        os.truncate(weights, 100)
    elif damage == "gone":
        weights.unlink()
    elif damage == "manifest":
        (folder / "sample.json").write_text("[]")
    elif damage == "file":
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        folder.write_text("not a folder")
    else:
        # What a process that was killed leaves behind.
        folder.rename(folder.with_name(".dflash.new"))
    assert digest(materialise("sample:dflash", tmp_path)) == good
    assert sorted(file.name for file in folder.parent.iterdir()) == [".lock", "dflash"]


def test_another_version_is_left_alone(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = materialise("sample:dspine", tmp_path)
    monkeypatch.setattr(sample, "_VERSION", 999)
    new = materialise("sample:dspine", tmp_path)
    assert old != new
    assert digest(old) == digest(new)


def test_many_at_once_agree_and_one_writes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = sample._write, []

    def counted(plain: str, folder: Path) -> None:
        written.append(plain)
        write(plain, folder)

    monkeypatch.setattr(sample, "_write", counted)
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: materialise("sample:dflash", tmp_path), range(8)))
    (folder,) = folders
    assert written == ["dflash"]
    assert digest(folder) == digest(materialise("sample:dflash", cache))


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(sample_name: str, tensor: object, numel: int) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sample_tensors, "tensor_bytes", full)
    with pytest.raises(SampleError, match="No space left on device"):
        materialise("sample:dflash", tmp_path)
    assert [file.name for file in (tmp_path / "samples" / "v1").iterdir()] == [".lock"]


def test_unknown_sample_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SampleError) as caught:
        materialise("sample:qwen4", tmp_path)
    assert caught.value.rule == "SD112"
    assert "sample:dspine-invalid" in caught.value.message
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", Path("a\0b")):
        with pytest.raises(SampleError, match="cannot be written") as caught:
            materialise("sample:dspine", path)
        assert caught.value.rule == "SD605"
        assert str(path) in str(caught.value.path)


def test_samples_hold_nothing_but_a_config_where_nothing_is_loaded(cache: Path) -> None:
    for name in ("dspine", "dspine-invalid"):
        folder = materialise(name, cache)
        assert sorted(file.name for file in folder.iterdir()) == ["config.json", "sample.json"]
        assert json.loads((folder / "config.json").read_text())["dflash_config"]
