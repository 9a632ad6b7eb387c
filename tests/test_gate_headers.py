"""What the headers of a refused draft are read for: to name its family, and to tell its faults."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from server import gate, startup
from server.log import Log, Refused
from tests.boots import make_log, make_options, rules
from tests.config.drafts import DSPINE, NESTED
from tests.process import witness
from tests.weights.make import raw_file

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "vocab_size": 32,
}
DOMINO: dict[str, Any] = {
    **NESTED,
    "dflash_config": {
        **NESTED["dflash_config"],
        "projector_type": "domino",
        "gru_hidden_dim": 8,
        "emb_dim": 4,
    },
}


def make_draft(folder: Path, config: object, tensors: Iterable[str] | None) -> Path:
    """A draft whose tensors have two elements each; without a weight file for None."""
    draft = folder / "draft"
    draft.mkdir()
    (draft / "config.json").write_text(json.dumps(config))
    if tensors is not None:
        header = {
            name: {"dtype": "BF16", "shape": [2], "data_offsets": [4 * i, 4 * i + 4]}
            for i, name in enumerate(tensors)
        }
        (draft / "model.safetensors").write_bytes(raw_file(header, 4 * len(header)))
    return draft


def read(draft: Path) -> tuple[gate.Servable, Log]:
    log = make_log()
    found = gate.read_draft_config(make_options("nowhere", draft), log)
    return gate.refuse_unservable(found, log), log


@pytest.mark.parametrize(
    ("tensors", "family"),
    [
        (["fc.weight", "layers.0.self_attn.q_proj.weight"], "eagle"),
        (["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"], "draft-model"),
        (["model.fc.weight", "model.layers.0.self_attn.q_proj.weight"], "eagle"),
        (["model.fc.weight", "model.layers.0.x.weight", "lm_head.weight"], "eagle"),
        (["fc.weight", "midlayer.hidden_norm.weight"], "unknown"),
        (["something.else"], "unknown"),
        (None, "unknown"),
    ],
)
def test_the_header_names_a_one_layer_model(
    tmp_path: Path, tensors: list[str] | None, family: str
) -> None:
    servable, log = read(make_draft(tmp_path, LLAMA, tensors))
    assert servable.refused
    assert log.report.draft is not None
    assert log.report.draft.family == family
    assert rules(log)[0] == ("SD302" if family == "unknown" else "SD312")


def test_a_folder_without_weights_stays_undecided_and_hears_nothing_more(tmp_path: Path) -> None:
    _, log = read(make_draft(tmp_path, LLAMA, None))
    assert rules(log) == ["SD302"]


@pytest.mark.parametrize(
    ("changes", "judged"),
    [({}, True), ({"n_routed_experts": 8}, False), ({"n_routed_experts": 0}, True),
     ({"draft_vocab_size": 100}, False), ({"markov_rank": 8}, False)],
)  # fmt: skip
def test_parts_that_the_family_leaves_out_keep_its_tensors_open(
    tmp_path: Path, changes: dict[str, Any], judged: bool
) -> None:
    draft = make_draft(tmp_path, DOMINO | changes, ["fc.weight"])
    log = make_log()
    with pytest.raises(Refused):
        startup.boot(make_options("nowhere", draft), log)
    assert ("SD402" in rules(log)) is judged


def test_absurd_counts_are_refused_and_build_nothing(tmp_path: Path) -> None:
    raw = {**LLAMA, "draft_vocab_size": 8, "num_aux_hidden_states": 2**24, "fc_norm": True}
    servable, log = read(make_draft(tmp_path, raw, ["fc.weight"]))
    assert servable.refused
    assert rules(log) == ["SD312", "SD108"]


def test_a_bare_config_stays_undecided(tmp_path: Path) -> None:
    draft = make_draft(tmp_path, LLAMA, ["fc.weight"])
    _, log = read((draft / "config.json").rename(tmp_path / "bare.json"))
    assert rules(log) == ["SD302"]
    assert "undecided between eagle and draft-model" in log.report.findings[0].message


def test_a_header_that_cannot_tell_because_it_is_broken_is_told(tmp_path: Path) -> None:
    draft = make_draft(tmp_path, LLAMA, None)
    (draft / "model.safetensors").write_bytes(b"\x08\x00")
    _, log = read(draft)
    assert rules(log) == ["SD302", "SD408"]


def test_a_refused_draft_hears_of_its_tensors_too(tmp_path: Path) -> None:
    draft = make_draft(tmp_path, DOMINO, ["fc.weight", "candidate_selector.x"])
    log = make_log()
    with pytest.raises(Refused):
        startup.boot(make_options("nowhere", draft), log)
    assert rules(log)[:2] == ["SD312", "SD112"]
    assert {"SD401", "SD402", "SD403"} <= set(rules(log))
    (extra,) = [f for f in log.report.findings if f.rule == "SD403"]
    assert "dflash2" in extra.message


def test_a_refused_draft_without_weights_hears_nothing_of_them(tmp_path: Path) -> None:
    draft = make_draft(tmp_path, DOMINO, None)
    (draft / "pytorch_model.bin").write_bytes(b"never opened")
    log = make_log()
    with pytest.raises(Refused):
        startup.boot(make_options("nowhere", draft), log)
    assert rules(log) == ["SD312", "SD112"]
    assert "holds no safetensors file" in log.report.checks["SD402"].reason


def test_a_refused_draft_keeps_the_targets_weights_closed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text("{}")
    (target / "model.safetensors").write_bytes(b"never opened")
    make_draft(tmp_path, DOMINO, ["fc.weight"])
    done = witness("--target", "target", "--draft", "draft", cache=tmp_path)
    weights = [name for name in done.opened if name.endswith(".safetensors")]
    assert done.code == 78
    assert [Path(name).parent.name for name in weights] == ["draft"]
    assert not {"torch", "numpy", "pynvml"} & set(done.modules)


def test_the_weights_of_a_dspine_draft_stay_closed(tmp_path: Path) -> None:
    make_draft(tmp_path, DSPINE, ["fc.weight"])
    done = witness("--target", "nowhere", "--draft", "draft", cache=tmp_path)
    assert done.code == 78
    assert not [name for name in done.opened if name.endswith(".safetensors")]
