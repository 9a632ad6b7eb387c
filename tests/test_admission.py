"""The verdict of the gate: who gets an admission, and who cannot make one."""

import json
from pathlib import Path
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file, save_file

from server import admission, gate, pairing, startup
from server.log import Log, Refused
from server.options import Options
from tests.boots import make_log, make_options, rules, said


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))
    return tmp_path


def headers_of(options: Options, log: Log) -> admission.Headers:
    servable = gate.refuse_unservable(gate.read_draft_config(options, log), log)
    return admission.read_tensor_headers(pairing.read_target_config(servable, log), log)


def copy_of(name: str, cache: Path) -> Path:
    startup.boot(make_options("sample:qwen3", "sample:dflash", check=True), make_log(OPTIONS))
    return copytree(cache / "samples" / "v1" / name, cache / f"own-{name}")


OPTIONS = make_options("sample:qwen3", "sample:dflash")


def cast(folder: Path, dtype: torch.dtype, stated: str | None) -> None:
    for path in folder.glob("*.safetensors"):
        save_file({k: v.to(dtype) for k, v in load_file(path).items()}, path)
    config = json.loads((folder / "config.json").read_text())
    for key in ("dtype", "torch_dtype"):
        config.pop(key, None)
    if stated is not None:
        config["dtype"] = stated
    (folder / "config.json").write_text(json.dumps(config))


def test_only_the_gate_makes_an_admission() -> None:
    log = make_log(OPTIONS)
    made = admission.admit(headers_of(OPTIONS, log), log)
    assert made is not None
    with pytest.raises(TypeError, match="only server"):
        admission.Admission(made.target, made.target_plan, made.draft, made.draft_plan, object())


def test_nothing_is_admitted_after_a_refusal() -> None:
    options = make_options("sample:qwen3", "sample:dflash", max_model_len=5000)
    log = make_log(options)
    assert admission.admit(headers_of(options, log), log) is None
    assert "SD506" in rules(log)


def test_a_config_that_is_unresolved_without_a_finding_is_a_bug_not_an_admission() -> None:
    log = make_log(OPTIONS)
    headers = headers_of(OPTIONS, log)
    target = headers.pair.target
    assert target is not None
    broken = headers.pair._replace(target=target._replace(reading=None))
    with pytest.raises(RuntimeError, match="unresolved"):
        admission.admit(admission.Headers(broken, headers.target, headers.draft), log)


def test_a_refused_draft_ends_the_boot_before_any_header_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.admission.survey", lambda *_: pytest.fail("headers read"))
    with pytest.raises(Refused):
        startup.boot(make_options("sample:qwen3", "sample:dspine"), make_log())


@pytest.mark.parametrize("stated", ["float16", None])
def test_a_bfloat16_draft_is_not_computed_in_float16(cache: Path, stated: str | None) -> None:
    """With --dtype auto the target decides; the draft's config need not state its dtype."""
    target, draft = copy_of("qwen3", cache), copy_of("dflash", cache)
    cast(target, torch.float16, stated)
    cast(draft, torch.bfloat16, None)
    log = make_log(OPTIONS)
    with pytest.raises(Refused):
        startup.boot(make_options(target, draft, check=True), log)
    assert rules(log) == ["SD207"]
    cast(draft, torch.float16, None)
    startup.boot(make_options(target, draft, check=True), log := make_log(OPTIONS))
    assert rules(log) == []


def test_a_bare_config_says_that_tensors_were_skipped(cache: Path) -> None:
    bare = cache / "target.json"
    bare.write_text((copy_of("qwen3", cache) / "config.json").read_text())
    log = make_log(OPTIONS)
    startup.boot(make_options(bare, check=True), log)
    assert "skipped: tensor rules" in said(log)
    with pytest.raises(Refused):
        startup.boot(make_options(bare), log)
    assert rules(log) == ["SD405"]
