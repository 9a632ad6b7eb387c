"""Which family claims which file: by its keys and values, never by a name or a path."""

from typing import Any

import pytest

from server.config.draft import UNKNOWN, ensure_servable, judge_file
from server.config.families import known_families
from server.config.families.model import DraftFile
from server.config.values import Source
from server.findings import Outcome
from tests.config.drafts import (
    BRIDGE,
    DSPARK,
    DSPINE,
    FLAT,
    GONE,
    IDS,
    NESTED,
    Raw,
    finding_of,
    judge,
    make,
    refusals,
    rules_of,
)


@pytest.mark.parametrize(
    ("base", "changes", "family", "schema_id"),
    [
        (NESTED, {}, "dflash", "nested"),
        (NESTED, {"architectures": ["QwenDFlashDraftModel"]}, "dflash", "nested"),
        (NESTED, {"dflash_config": {}}, "dflash", "nested"),
        (FLAT, {}, "dflash", "flat"),
        (FLAT, {"markov_rank": GONE}, "dflash", "flat"),
        (FLAT, {"markov_rank": None}, "dflash", "flat"),
        (DSPARK, {}, "dspark", "flat"),
        (DSPARK, {"markov_rank": "256"}, "dspark", "flat"),
        (DSPARK, {"markov_rank": True}, "dspark", "flat"),
        (DSPARK, {"architectures": ["Gemma4DSparkModel"]}, "dspark", "flat"),
        (DSPARK, {"architectures": ["DSparkDraftModel"]}, "dspark", "flat"),
        (DSPARK, {"architectures": GONE}, "dspark", "flat"),
        (DSPINE, {}, "dspine", "nested"),
        (FLAT, {"dflash_config": {"selected_prefix_code_bridge": 1}}, "dspine", "nested"),
    ],
)
def test_served_families_and_dspine(base: Raw, changes: Raw, family: str, schema_id: str) -> None:
    draft = judge(base, changes)
    assert (draft.family, draft.schema_id) == (family, schema_id)
    assert draft.evidence
    assert draft.reading is not None


# (key, foreign value, value that states plain DFlash or None when there is none)
MARKS: list[tuple[str, Any, Any]] = [
    ("projector_type", "domino", "dflash"),
    ("projector_type", "dspark", "dflash"),
    ("gru_hidden_dim", 1024, None),
    ("emb_dim", 256, None),
    ("pure_draft_prefix_len", 1, None),
    ("shift_label", True, False),
    ("markov_rank", 256, 0),
    ("markov_rank", True, 0),
    ("markov_head_type", "vanilla", None),
    ("enable_confidence_head", True, False),
    ("use_confidence_head", True, False),
    ("conv_kernel_size", 2, None),
    ("conv_group_size", 16, None),
    ("selector_rank", 256, None),
    ("selector_top_k", 16, None),
    ("selector_something_new", 16, None),
    ("causal_head", True, False),
    ("enable_hidden_correction", True, False),
    ("model_arch", "dflare", "dflash"),
    ("speculators_model_type", "dflash", None),
    ("transformer_layer_config", {}, None),
    ("draft_vocab_size", 32000, 151936),
    ("eagle_config", {}, None),
    ("medusa_num_heads", 5, None),
    ("mtp_num_hidden_layers", 1, None),
    ("num_nextn_predict_layers", 1, 0),
    ("layer_fusion_weights", [1], None),
    ("norm_before_residual", True, False),
    ("norm_before_fc", True, False),
    ("fc_norm", True, False),
    ("norm_output", True, False),
    ("num_mtp_modules", 1, 0),
    ("truncated_vocab_size", 32000, None),
]


# The marks that name the family of an otherwise plain nested file; all others leave it unknown.
SELECTOR = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
NAMED = {
    **{level + key: "dflash2" for key in SELECTOR for level in ("", "dflash_config/")},
    "dflash_config/projector_type": "*",  # the value is the family
    "dflash_config/gru_hidden_dim": "domino",
    "dflash_config/emb_dim": "domino",
    "dflash_config/pure_draft_prefix_len": "domino",
    "dflash_config/markov_rank": "dspark",
    "dflash_config/causal_head": "jetspec",
    "markov_rank": "dspark",
    "enable_hidden_correction": "dfly",
    "model_arch": "*",
    "speculators_model_type": "*",
}


@pytest.mark.parametrize("level", ["", "dflash_config/"])
@pytest.mark.parametrize(("key", "foreign", "inert"), MARKS)
def test_foreign_mark_at_either_level_is_not_dflash(
    key: str, foreign: object, inert: object, level: str
) -> None:
    draft = judge(NESTED, {level + key: foreign})
    named = NAMED.get(level + key)
    named = foreign if named == "*" else named
    assert draft.family == (named or UNKNOWN)
    assert f"/{level}{key}" in [place.pointer for place in draft.evidence]
    assert refusals(draft)[0] == ("SD312" if named else "SD302")
    if not named:
        assert f"/{level}{key}" in draft.candidates["dflash (nested)"]
    plain = judge(NESTED, {level + key: inert})
    assert (plain.family, plain.schema_id) == ("dflash", "nested")
    assert rules_of(plain) == []


# (key, value that is not computed, value that states plain DFlash): the family stays DFlash.
UNCOMPUTED: list[tuple[str, Any, Any]] = [
    ("attention_sink_bias", True, False),
    ("attention_value_scale", 0.5, 1),
    ("backbone_rotary_base", 10000, None),
    ("fusion_type", "gated", "concat_fc"),
    ("gate_temperature", 1.0, None),
    ("log_snr_conditioning", True, False),
    ("enable_qwen35_gated_q_proj", True, False),
    ("conditioning_source", "target_kv", None),
    ("attention_modes", ["mla"], None),
    ("moe_preset", "small", None),
    ("dflash_query_causal", True, False),
    ("attention_mode", "mla", "gqa"),
]
# The same at the top level only: keys of decoders.
DECODER: list[tuple[str, Any, Any]] = [
    ("rope_is_neox_style", False, True),
    ("rope_interleave", True, False),
    ("kv_lora_rank", 512, None),
    ("n_routed_experts", 64, 0),
    ("num_experts", 64, 0),
    ("linear_attn_config", {"kda_layers": [1]}, None),
    ("residual_multiplier", 0.2, 1.0),
    ("hidden_activation", "gelu", "silu"),
    ("qk_norm", False, True),
    ("clip_qkv", 8.0, None),
]


@pytest.mark.parametrize("level", ["", "dflash_config/"])
@pytest.mark.parametrize(("key", "other", "computed"), UNCOMPUTED)
def test_dflash_with_another_arithmetic_is_dflash_and_refused(
    key: str, other: object, computed: object, level: str
) -> None:
    draft = judge(NESTED, {level + key: other})
    assert (draft.family, draft.schema_id) == ("dflash", "nested")
    assert refusals(draft) == ["SD311"]
    assert finding_of(draft, "SD311").locations[0].pointer == f"/{level}{key}"
    assert rules_of(judge(NESTED, {level + key: computed})) == []


@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK])
@pytest.mark.parametrize(("key", "other", "computed"), DECODER)
def test_another_decoder_under_the_same_names_is_refused(
    base: Raw, key: str, other: object, computed: object
) -> None:
    draft = judge(base, {key: other})
    assert draft.served
    assert refusals(draft) == ["SD311"]
    assert rules_of(judge(base, {key: computed})) == []


@pytest.mark.parametrize("key", ["quantization", "quant_config"])
def test_quantisation_under_another_key_is_refused(key: str) -> None:
    assert refusals(judge(NESTED, {key: {"bits": 4}})) == ["SD309"]
    assert rules_of(judge(NESTED, {key: None})) == []


@pytest.mark.parametrize(
    ("key", "value", "rules"),
    [
        ("eagle_aux_hidden_state_layer_ids", [i + 1 for i in IDS], []),
        ("eagle_aux_hidden_state_layer_ids", IDS, ["SD110"]),
        ("eagle_aux_hidden_state_layer_ids", None, []),
        ("pard_token", 151669, []),
        ("pard_token", 151670, ["SD110"]),
        ("ptd_token_id", 151669, []),
        ("pard_token", None, []),
    ],
)
@pytest.mark.parametrize("level", ["", "dflash_config/"])
def test_the_same_fact_under_eagles_name_must_agree(
    key: str, value: object, rules: list[str], level: str
) -> None:
    draft = judge(NESTED, {level + key: value})
    assert (draft.family, draft.schema_id) == ("dflash", "nested")
    assert rules_of(draft) == rules


def test_full_heads_are_grouped_heads_of_one() -> None:
    mode: Raw = {"dflash_config/attention_mode": "mha"}
    assert refusals(judge(NESTED, mode)) == ["SD311"]
    assert refusals(judge(NESTED, mode | {"num_key_value_heads": 32})) == []


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("Markov_Rank", True),
        ("markov_rank ", True),
        ("mаrkov_rank", True),  # noqa: RUF001  (a Cyrillic letter, on purpose)
        ("DSPINE_CONFIG", True),
        ("Dflash_Config", True),
        ("Is_Causal", True),
        ("MyNote", False),
        ("备注", False),
        ("my_note", False),
    ],
)
def test_a_key_that_looks_like_another_is_refused(key: str, refused: bool) -> None:
    draft = judge(NESTED, {key: 256})
    assert draft.family == "dflash"
    assert rules_of(draft) == ["SD111"]
    assert draft.outcome.refused is refused


@pytest.mark.parametrize("key", ["mask_token", "attention_backend", "loss_decay_gamma"])
def test_a_harmless_key_hides_no_object(key: str) -> None:
    hidden = {"markov_rank": 256}
    assert refusals(judge(NESTED, {f"dflash_config/{key}": hidden})) == ["SD109"]
    assert rules_of(judge(NESTED, {f"dflash_config/{key}": "text"})) == []


@pytest.mark.parametrize("key", ["domino_config", "lilicorr_rank", "dspine_rank", "dflare_layers"])
def test_a_key_that_begins_with_a_relatives_name_is_not_dflash(key: str) -> None:
    assert judge(NESTED, {key: 1}).family in (UNKNOWN, "dspine")
    assert judge(NESTED, {key: None}).family == "dflash"


def test_dflash_over_another_decoder_is_dflash_and_refused() -> None:
    name = "DFlashLagunaForCausalLM"
    draft = judge(NESTED, {"architectures": [name]})
    assert (draft.family, refusals(draft)) == ("dflash", ["SD303"])
    assert name in finding_of(draft, "SD303").message


@pytest.mark.parametrize("names", [["DSparkDraftModel"], ["Qwen3DSparkModel", "Qwen3Model"], GONE])
def test_flat_dspark_under_another_architecture_is_dspark_and_refused(names: object) -> None:
    draft = judge(DSPARK, {"architectures": names})
    assert (draft.family, refusals(draft)) == ("dspark", ["SD303"])
    assert "Qwen3DSparkModel is served" in finding_of(draft, "SD303").message


def test_causal_block_without_a_bridge_is_unknown() -> None:
    draft = judge(NESTED, {"dflash_config/draft_block_causal": True})
    assert draft.family == UNKNOWN
    assert refusals(draft) == ["SD302"]
    assert rules_of(judge(NESTED, {"dflash_config/draft_block_causal": False})) == []


@pytest.mark.parametrize(
    ("base", "changes", "reason"),
    [
        (NESTED, {"architectures": ["SomeDraftModel"]}, "SomeDraftModel"),
        (NESTED, {"architectures": GONE}, "architectures is null"),
        (NESTED, {"architectures": "DFlashDraftModel"}, 'architectures is "DFlashDraftModel"'),
        (NESTED, {"architectures": ["DFlashDraftModel", "X"]}, '"X"'),
        (NESTED, {"dflash_config": GONE}, "dflash_config is missing"),
        (NESTED, {"dflash_config": [1]}, "dflash_config is [1]"),
    ],
)
def test_reason_for_not_claiming(base: Raw, changes: Raw, reason: str) -> None:
    draft = judge(base, changes)
    assert draft.family == UNKNOWN
    assert reason in draft.candidates["dflash (nested)"]


def test_flat_file_beside_a_nested_one_is_not_flat() -> None:
    hybrid = judge(DSPARK, {"dflash_config": {"mask_token_id": 5}})
    assert (hybrid.family, hybrid.schema_id) == ("dspark", "hybrid")
    assert refusals(hybrid)[0] == "SD312"
    assert judge(FLAT, {"dflash_config": {"mask_token_id": 5}}).family == UNKNOWN
    assert judge(DSPARK, {"dflash_config": None}).schema_id == "flat"


def test_flat_file_with_foreign_mark_is_unknown() -> None:
    assert judge(FLAT, {"projector_type": "domino"}).family == UNKNOWN
    assert judge(FLAT, {"projector_type": "dflash"}).family == "dflash"


def test_unlisted_key_does_not_change_the_family() -> None:
    draft = judge(NESTED, {"dflash_config/unheard_of": 1})
    assert draft.family == "dflash"
    assert finding_of(draft, "SD109").locations[0].value == 1


def test_unknown_family_quotes_architecture_and_deciding_keys() -> None:
    draft = judge(NESTED, {"dflash_config/use_confidence_head": True, "model_type": "x"})
    (found,) = ensure_servable(draft, "auto").findings
    for words in ('["DFlashDraftModel"]', "dflash_config.use_confidence_head is true", '"x"'):
        assert words in found.message


def test_every_candidate_says_why_not() -> None:
    draft = judge({"architectures": ["SomeForCausalLM"]})
    assert list(draft.candidates) == [f"{f.id} ({f.schema_id})" for f in known_families()]
    assert all(0 < len(reason) < 120 for reason in draft.candidates.values())


def test_name_of_the_file_decides_nothing() -> None:
    names = ("dspine/config.json", "my-eagle-draft/config.json", "dflash2.json")
    files = [DraftFile(make(NESTED), Source("draft", name)) for name in names]
    assert [judge_file(file, Outcome()).family for file in files] == ["dflash"] * 3


def test_bridge_at_top_level_is_told_and_not_dspine() -> None:
    draft = judge(NESTED, {"selected_prefix_code_bridge": BRIDGE})
    assert draft.family == "dflash"
    assert rules_of(draft) == ["SD115"]
    assert draft.outcome.refused is False
    assert judge(NESTED, {"selected_prefix_code_bridge": BRIDGE}, strict=True).outcome.refused
    assert rules_of(judge(NESTED, {"selected_prefix_code_bridge": None})) == []
