"""The speculators format: defaults of its classes, and what is read for each algorithm."""

from collections.abc import Mapping
from typing import Any

import pytest

from server.config.draft import Draft, read_draft
from server.config.pair import Asked, Pair, judge_pair
from server.config.records import AnchorLayout
from server.config.target import read_target
from tests.config.drafts import GONE, Raw, finding_of, judge, refusals, rules_of
from tests.config.families.eagle_relatives import with_target
from tests.config.families.speculator_files import (
    DFLASH,
    DSPARK,
    EAGLE3,
    FILES,
    MEDUSA,
    MTP,
)
from tests.config.pairs import errors
from tests.corpus import corpus_file, corpus_files

LAYER = "transformer_layer_config/"
FIRST = AnchorLayout.FIRST


def field(draft: Draft, *names: str) -> tuple[object, ...]:
    """What was read for each of `names`."""
    assert draft.reading is not None
    return tuple(getattr(draft.reading.partial, name) for name in names)


@pytest.mark.parametrize("algorithm", FILES)
def test_file_is_read_and_refused_by_its_name_only(algorithm: str) -> None:
    draft = judge(FILES[algorithm])
    family = "p-eagle" if algorithm == "peagle" else algorithm
    assert (draft.family, draft.schema_id) == (family, "speculators")
    assert refusals(draft) == ["SD312"]
    assert rules_of(draft) == []
    assert field(draft, "hidden_size", "vocab_size") == (4096, 151936)


def test_decoder_is_read_inside_its_own_object() -> None:
    draft = judge(DFLASH)
    assert draft.reading is not None
    pointers = draft.reading.pointers
    assert pointers["hidden_size"] == "/transformer_layer_config/hidden_size"
    assert pointers["rope_theta"] == "/transformer_layer_config/rope_parameters/rope_theta"
    assert pointers["target_layer_ids"] == "/aux_hidden_state_layer_ids"
    told = finding_of(judge(DFLASH, {f"{LAYER}hidden_size": "4096"}), "SD107")
    assert told.locations[0].pointer == "/transformer_layer_config/hidden_size"
    # The same key at the top level is another key.
    assert field(judge(DFLASH, {"hidden_size": 1}), "hidden_size") == (4096,)


QWEN3 = {
    **{"hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32},
    **{"num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128},
    **{"vocab_size": 151936, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6},
    "rope_theta": 10000.0,
}
LLAMA = {"intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("layer", "values"),
    [
        ({"model_type": "qwen3"}, QWEN3),
        ({}, QWEN3),
        ({"model_type": "llama"}, {**QWEN3, **LLAMA}),
        ({"model_type": "llama", "hidden_size": 2048}, {"hidden_size": 2048, "head_dim": 64}),
        ({"model_type": "qwen3", "hidden_size": 2048}, {"hidden_size": 2048, "head_dim": 128}),
    ],
)
def test_missing_key_has_the_default_of_its_class_and_no_place(
    layer: Raw, values: Mapping[str, object]
) -> None:
    draft = judge(DFLASH, {"transformer_layer_config": layer, "mask_token_id": 5})
    assert field(draft, *values) == tuple(values.values())
    assert draft.reading is not None
    left = [name for name in values if name not in layer]
    assert {draft.reading.pointers[name] for name in left} == {""}


def test_class_that_is_not_known_has_no_defaults() -> None:
    layer = {"model_type": "deepseek_v4", "hidden_size": 4096, "vocab_size": 151936}
    draft = judge(DFLASH, {"transformer_layer_config": layer})
    assert refusals(draft) == ["SD312"]
    assert draft.reading is not None
    waits = draft.reading.unresolved
    assert {waits[name] for name in ("head_dim", "rope_theta")} == {"SD312"}
    assert errors(with_target(draft, hidden_size=2560)) == ["SD201"]


def test_default_is_told_as_such_against_a_target() -> None:
    draft = judge(DFLASH, {f"{LAYER}rope_parameters": GONE})
    (found,) = [f for f in with_target(draft).findings if f.rule == "SD205"]
    assert found.message == "draft rope_theta is 10000, target rope_theta is 1000000"
    assert found.locations[0].source == "not in the file: the default of its format"
    assert found.locations[0].pointer is None


@pytest.mark.parametrize("algorithm", [name for name in FILES if name != "medusa"])
def test_decoder_has_to_be_there(algorithm: str) -> None:
    missing = judge(FILES[algorithm], {"transformer_layer_config": GONE})
    assert "SD105" in rules_of(missing)
    wrong = judge(FILES[algorithm], {"transformer_layer_config": [1]})
    assert "SD107" in rules_of(wrong)
    assert missing.reading is not None
    assert missing.reading.unresolved["hidden_size"] == "SD312"


def test_captured_ids_name_inputs() -> None:
    assert field(judge(DFLASH), "captured_outputs") == ((1, 9, 17, 25, 33),)
    assert errors(with_target(judge(DFLASH, {"aux_hidden_state_layer_ids": [2, 36]}))) == []
    assert errors(with_target(judge(DFLASH, {"aux_hidden_state_layer_ids": [2, 37]}))) == ["SD209"]


def test_top_level_keys_have_the_defaults_of_the_algorithm() -> None:
    keys = ("draft_vocab_size", "block_size", "markov_rank", "enable_confidence_head")
    draft = judge(DSPARK, dict.fromkeys(keys, GONE))
    assert field(draft, *keys) == (32000, 8, 256, True)
    assert field(judge(FILES["jetspec"], {"block_size": GONE}), "block_size") == (16,)
    assert field(judge(FILES["dflash2"], {"selector_rank": GONE}), "selector_rank") == (256,)


def test_markov_head_is_read_of_dspark_only() -> None:
    assert field(judge(DSPARK), "markov_rank", "layout") == (256, FIRST)
    assert field(judge(DFLASH, {"markov_rank": 256}), "markov_rank") == (0,)
    assert rules_of(judge(DSPARK, {"markov_rank": 0})) == ["SD110"]
    alone = {"markov_rank": 0, "confidence_head_with_markov": False}
    assert rules_of(judge(DSPARK, alone)) == []


def test_eagle3_leaves_positions_and_rotary_base_open() -> None:
    draft = judge(EAGLE3, {f"{LAYER}rope_parameters": GONE})
    assert draft.reading is not None
    assert draft.reading.unresolved["rope_theta"] == "SD312"
    assert errors(with_target(draft)) == []
    assert field(judge(EAGLE3), "captured_count") == (3,)
    five = {"eagle_aux_hidden_state_layer_ids": [2, 10, 18, 26, 34]}
    assert field(judge(EAGLE3, five), "captured_count", "layer_id_shift") == (5, 1)


def test_mtp_states_the_depth_of_its_target_and_has_one_layer() -> None:
    draft = judge(MTP)
    assert field(draft, "num_target_layers", "num_hidden_layers") == (36, 1)
    assert errors(with_target(draft, num_hidden_layers=40)) == ["SD202"]
    assert rules_of(judge(MTP, {"num_nextn_predict_layers": GONE})) == []
    assert rules_of(judge(MTP, {"num_nextn_predict_layers": 2})) == ["SD108"]
    assert rules_of(judge(MTP, {"num_nextn_predict_layers": 0})) == ["SD108"]


def test_medusa_states_its_sizes_at_the_top_level() -> None:
    assert field(judge(MEDUSA), "num_heads", "draft_vocab_size") == (5, None)
    assert field(judge(MEDUSA, {"truncated_vocab_size": 32000}), "draft_vocab_size") == (32000,)
    assert rules_of(judge(MEDUSA, {"truncated_vocab_size": 151937})) == ["SD108"]
    assert errors(with_target(judge(MEDUSA), hidden_size=2560)) == ["SD201"]


@pytest.mark.parametrize("algorithm", FILES)
def test_wrong_target_is_told_and_the_right_one_is_not(algorithm: str) -> None:
    draft = judge(FILES[algorithm])
    assert errors(with_target(draft)) == []
    assert "SD201" in errors(with_target(draft, hidden_size=2560))
    assert "SD203" in errors(with_target(draft, vocab_size=152064))


def against(draft: Draft, target: str) -> list[str]:
    """The pair's errors for a real target."""
    reading = read_target(corpus_file(f"target/{target}.json"), False).reading
    assert reading is not None
    assert draft.reading is not None
    return errors(judge_pair(Pair(draft.reading, reading, Asked())))


@pytest.mark.parametrize(
    ("algorithm", "wrong"),
    [("dflash", ["SD201"]), ("dspark", ["SD201"]), ("eagle3", ["SD201"])],
)
def test_real_file_fits_its_target_and_no_other(algorithm: str, wrong: list[str]) -> None:
    name = f"speculators/speculators__qwen3-8b-{algorithm}.reconstructed.json"
    draft = read_draft(corpus_file(name), False)
    assert against(draft, "Qwen__Qwen3-8B") == []
    assert against(draft, "Qwen__Qwen3-4B") == wrong


def test_no_real_file_has_an_error_of_its_own() -> None:
    for path in corpus_files("speculators") + corpus_files("dspark_speculators"):
        draft = read_draft(path, False)
        assert refusals(draft) == ["SD312"], path.name
        assert rules_of(draft) == [], path.name


def test_partial_file_gets_findings_from_defaults_against_its_own_target() -> None:
    """This file quotes some keys of a checkpoint's config. The real one states positions and rope.

    Its target has the geometry of the Qwen3.5 model of the same size.
    """
    path = "dspark_speculators/RedHatAI__Qwen3.6-35B-A3B-speculator.dspark.partial.json"
    draft = read_draft(corpus_file(path), False)
    assert draft.reading is not None
    open_fields = ("max_position_embeddings", "rope_theta")
    assert [draft.reading.pointers[name] for name in open_fields] == ["", ""]
    assert field(draft, *open_fields) == (32768, 10000.0)
    assert against(draft, "Qwen__Qwen3.5-35B-A3B") == ["SD204", "SD205"]


def test_facts_of_the_real_dspark_file() -> None:
    name = "speculators/speculators__qwen3-8b-dspark.reconstructed.json"
    draft = read_draft(corpus_file(name), False)
    wanted: dict[str, Any] = {
        **{"hidden_size": 4096, "num_hidden_layers": 5, "rope_theta": 1000000, "block_size": 8},
        **{"mask_token_id": 151669, "draft_vocab_size": 32000, "markov_rank": 256},
        **{"layout": FIRST, "captured_outputs": (1, 9, 17, 25, 33)},
    }
    assert field(draft, *wanted) == tuple(wanted.values())
