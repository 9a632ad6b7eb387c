"""The target's config.json: what is served, what is refused by name, what is still read."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.config.target import Target, read_target
from server.findings import CheckStatus, Severity
from tests.corpus import corpus_file

TARGETS = (
    "Qwen__Qwen3-0.6B",
    "Qwen__Qwen3-1.7B",
    "Qwen__Qwen3-4B",
    "Qwen__Qwen3-4B-2507",
    "Qwen__Qwen3-8B",
    "Qwen__Qwen3-8B.resaved-transformers4.57",
    "Qwen__Qwen3-32B",
)


def make_config(**changes: object) -> dict[str, Any]:
    """Qwen3-8B as transformers 4.51 writes it; a value of ... removes the key."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "intermediate_size": 12288,
        "max_position_embeddings": 40960,
        "max_window_layers": 36,
        "model_type": "qwen3",
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 151936,
    }
    return {key: value for key, value in (config | changes).items() if value is not ...}


def read(tmp_path: Path, config: object, strict: bool = False) -> Target:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return read_target(path, strict)


def rules(target: Target) -> list[str]:
    return [f.rule for f in target.outcome.findings if f.severity is Severity.ERROR]


def resolved(target: Target) -> bool:
    return target.reading is not None and target.reading.record is not None


def test_plain_target_is_resolved(tmp_path: Path) -> None:
    target = read(tmp_path, make_config(), strict=True)
    assert target.outcome.findings == ()
    assert target.architecture == "Qwen3ForCausalLM"
    assert target.reading is not None
    record = target.reading.record
    assert record is not None
    assert (record.hidden_size, record.rope_theta, record.dtype) == (4096, 1e6, "bfloat16")
    assert target.reading.pointers["hidden_size"] == "/hidden_size"
    assert target.reading.pointers["architecture"] == "/architectures/0"


def test_transformers_5_spelling_reads_the_same(tmp_path: Path) -> None:
    theirs = make_config(
        rope_theta=...,
        rope_scaling=...,
        torch_dtype=...,
        dtype="bfloat16",
        rope_parameters={"rope_theta": 1000000, "rope_type": "default"},
        layer_types=["full_attention"] * 36,
    )
    new, old = read(tmp_path, theirs), read(tmp_path, make_config())
    assert new.reading is not None
    assert old.reading is not None
    assert new.reading.record == old.reading.record
    assert new.reading.pointers["rope_theta"] == "/rope_parameters/rope_theta"


@pytest.mark.parametrize(("stated", "tied"), [(True, True), (False, False), (..., False)])
def test_tied_embeddings_default_to_false(stated: object, tied: bool, tmp_path: Path) -> None:
    target = read(tmp_path, make_config(tie_word_embeddings=stated))
    assert target.reading is not None
    assert target.reading.record is not None
    assert target.reading.record.tie_word_embeddings is tied


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"hidden_size": ...}, "SD105"),
        ({"architectures": ...}, "SD105"),
        ({"architectures": []}, "SD105"),
        ({"architectures": "Qwen3ForCausalLM"}, "SD107"),
        ({"architectures": [7]}, "SD107"),
        ({"architectures": ["Qwen3ForCausalLM", "LlamaForCausalLM"]}, "SD107"),
        ({"use_sliding_window": "yes"}, "SD107"),
        ({"sliding_window": "4096"}, "SD107"),
        ({"hidden_size": True}, "SD107"),
        ({"hidden_size": "4096"}, "SD107"),
        ({"hidden_size": 4096.0}, "SD107"),
        ({"tie_word_embeddings": 1}, "SD107"),
        ({"hidden_size": 0}, "SD108"),
        ({"rope_parameters": {"rope_theta": 5000000}}, "SD110"),
        ({"dtype": "float16"}, "SD110"),
        ({"layer_types": ["full_attention"] * 35}, "SD117"),
        ({"num_key_value_heads": 7}, "SD119"),
        ({"use_sliding_window": True, "sliding_window": 4096}, "SD307"),
        ({"use_sliding_window": True, "sliding_window": ...}, "SD307"),
        ({"layer_types": ["full_attention"] * 35 + ["sliding_attention"]}, "SD307"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "SD308"),
        ({"quantization_config": {"quant_method": "fp8"}}, "SD309"),
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "SD310"),
        ({"model_type": "qwen3_moe"}, "SD310"),
        ({"model_type": 3}, "SD310"),
        ({"attention_bias": True}, "SD311"),
        ({"hidden_act": "gelu"}, "SD311"),
    ],
)
def test_each_fault_is_refused_by_its_own_rule(
    changes: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    target = read(tmp_path, make_config(**changes))
    assert rules(target) == [rule]
    assert not resolved(target)


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": 4096},
        {"use_sliding_window": True, "sliding_window": None},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}},
        {"layer_types": ["full_attention"] * 36},
        {"quantization_config": None},
        {"dtype": "bfloat16"},
        {"model_type": ...},
        {"tie_word_embeddings": None},
        {"torch_dtype": None},
    ],
)
def test_nearest_sound_file_is_accepted(changes: dict[str, Any], tmp_path: Path) -> None:
    target = read(tmp_path, make_config(**changes))
    assert rules(target) == []
    assert resolved(target)


def test_several_faults_are_told_in_one_pass(tmp_path: Path) -> None:
    changes = {"hidden_size": "4096", "vocab_size": ..., "attention_bias": True}
    assert rules(read(tmp_path, make_config(**changes))) == ["SD105", "SD107", "SD311"]


def test_unknown_key_is_noted_and_refused_under_strict(tmp_path: Path) -> None:
    config = make_config(num_nextn_predict_layers=1)
    (note,) = read(tmp_path, config).outcome.findings
    assert (note.rule, note.severity) == ("SD111", Severity.NOTE)
    assert rules(read(tmp_path, config, strict=True)) == ["SD111"]


def test_foreign_target_says_nothing_but_its_name(tmp_path: Path) -> None:
    config = make_config(architectures=["LlamaForCausalLM"], model_type="llama", head_dim=...)
    config["rope_scaling"] = {"rope_type": "llama3"}
    target = read(tmp_path, config)
    (finding,) = target.outcome.findings
    assert finding.rule == "SD310"
    assert "LlamaForCausalLM" in finding.message
    assert "Qwen3ForCausalLM" in finding.message
    assert target.reading is not None
    assert target.reading.unresolved == {"head_dim": "SD310"}
    assert target.reading.partial.hidden_size == 4096


def test_nested_geometry_is_read_with_its_pointers(tmp_path: Path) -> None:
    inner = make_config(architectures=..., model_type="qwen3_vl_text")
    outer = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": inner,
    }
    target = read(tmp_path, outer)
    assert rules(target) == ["SD310"]
    assert target.reading is not None
    assert target.reading.unresolved == {}
    assert target.reading.pointers["rope_theta"] == "/text_config/rope_theta"


def test_rotary_base_for_each_layer_type_is_not_guessed(tmp_path: Path) -> None:
    tables = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    inner = make_config(architectures=..., rope_theta=..., rope_parameters=tables)
    outer = {"architectures": ["Gemma4ForConditionalGeneration"], "text_config": inner}
    target = read(tmp_path, outer)
    assert target.reading is not None
    assert target.reading.unresolved == {"rope_theta": "SD310"}


def test_a_decoder_two_levels_down_is_read(tmp_path: Path) -> None:
    decoder = {"hidden_size": 2048, "vocab_size": 152064}
    file = {"architectures": ["X"], "thinker_config": {"text_config": decoder}}
    reading = read(tmp_path, file).reading
    assert reading is not None
    assert reading.partial.hidden_size == 2048
    assert reading.pointers["hidden_size"] == "/thinker_config/text_config/hidden_size"


def test_names_and_tokens_of_both_levels_are_read(tmp_path: Path) -> None:
    nested = {"model_type": "qwen3_5_text", "eos_token_id": [7, 8], "bos_token_id": None}
    file = {"architectures": ["X"], "model_type": "qwen3_5", "text_config": nested}
    reading = read(tmp_path, file).reading
    assert reading is not None
    assert reading.partial.model_types == ("qwen3_5", "qwen3_5_text")
    assert (reading.partial.eos_token_id, reading.partial.bos_token_id) == ((7, 8), ())
    assert reading.pointers["eos_token_id"] == "/text_config/eos_token_id"


@pytest.mark.parametrize(
    ("value", "tokens"), [(5, (5,)), ([5, 6], (5, 6)), (None, ()), (True, ()), (["5", 6], (6,))]
)
def test_token_ids_are_integers_alone(value: object, tokens: object, tmp_path: Path) -> None:
    reading = read(tmp_path, make_config(eos_token_id=value)).reading
    assert reading is not None
    assert reading.partial.eos_token_id == tokens


def test_draft_given_as_target_is_told_where_it_belongs(tmp_path: Path) -> None:
    config = make_config(architectures=["DFlashDraftModel"], num_target_layers=36)
    (finding,) = read(tmp_path, config).outcome.findings
    assert finding.rule == "SD310"
    assert "--draft" in finding.fix


def test_file_that_is_no_object_has_no_reading(tmp_path: Path) -> None:
    target = read(tmp_path, [make_config()])
    assert target.reading is None
    assert rules(target) == ["SD103"]


def test_file_that_is_not_there(tmp_path: Path) -> None:
    target = read_target(tmp_path / "config.json", strict=False)
    assert (target.reading, rules(target)) == (None, ["SD101"])


@pytest.mark.parametrize("name", TARGETS)
def test_real_qwen3_is_accepted(name: str) -> None:
    target = read_target(corpus_file(f"target/{name}.json"), strict=True)
    assert target.outcome.findings == ()
    assert resolved(target)


def test_every_other_real_target_is_refused() -> None:
    folder = corpus_file("target/Qwen__Qwen3-8B.json").parent
    others = [path for path in sorted(folder.iterdir()) if path.stem not in TARGETS]
    found = {path.stem: rules(read_target(path, strict=False)) for path in others}
    quantised = "Qwen__Qwen3-32B-FP8-Static-PerTensor"
    assert found.pop(quantised) == ["SD309"]
    assert len(found) >= 19
    assert set(map(tuple, found.values())) == {("SD310",)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(make_config())), value=JSON)
def test_no_value_of_any_key_raises(key: str, value: object, tmp_path: Path) -> None:
    target = read(tmp_path, make_config(**{key: value}))
    statuses = {check.status for check in target.outcome.checks}
    assert target.outcome.refused == (CheckStatus.FAIL in statuses)
    assert resolved(target) != target.outcome.refused
