"""DFlash's relatives: what is read of a file, which rules of its family run, and with a target."""

from typing import Any

import pytest

from server.config.draft import Draft
from server.config.pair import Asked, Pair, judge_pair
from server.config.records import AnchorLayout, TargetConfig
from server.findings import CheckStatus, Outcome
from tests.config.drafts import GONE, Raw, finding_of, judge, refusals, rules_of
from tests.config.families.relatives import (
    ANGELSPEC,
    ANGELSPEC_DFLARE,
    ANGELSPEC_DSPARK,
    DFLARE,
    DFLASH2,
    DFLY,
    FILES,
    GATED,
    HYBRID,
    JETSPEC,
    MODELOPT,
    SPECFORGE,
    YARN,
)
from tests.config.pairs import TARGET, errors, make_reading, status

IN = "dflash_config/"
DROP, FIRST = AnchorLayout.DROP, AnchorLayout.FIRST
MARKOV: dict[str, Any] = {
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
# What each file says beyond the facts that all of them state.
OWN: dict[str, dict[str, Any]] = {
    "dflash2 (nested)": {
        **{"block_size": 8, "layout": DROP, "conv_kernel_size": 2, "conv_group_size": 16},
        **{"selector_rank": 256, "selector_top_k": 16},
    },
    "dspark (nested)": {**MARKOV, "block_size": 7, "layout": DROP, "attention_mode": "gqa"},
    "dspark (modelopt)": {**MARKOV, "block_size": 8, "layout": FIRST, "shift_label": True},
    "dspark (hybrid)": {**MARKOV, "block_size": 7, "layout": DROP},
    "dspark (angelspec)": {**MARKOV, "target_hidden_size": 4096},
    "dflash (angelspec)": {"target_hidden_size": 4096, "head_dim": 128},
    "dfly (angelspec)": {"enable_hidden_correction": True},
    "dflare (nested)": {"block_size": 16, "layout": DROP},
    "dflare (angelspec)": {"target_hidden_size": 4096},
    "jetspec (nested)": {"block_size": 16, "causal_head": True},
}


def read(base: Raw, changes: Raw | None = None) -> tuple[Draft, Any]:
    draft = judge(base, changes)
    assert draft.reading is not None
    return draft, draft.reading.partial


def with_target(draft: Draft, **target: object) -> Outcome:
    assert draft.reading is not None
    reading = make_reading(TargetConfig(**{**TARGET, **target}), "target", {})
    return judge_pair(Pair(draft.reading, reading, Asked()))


@pytest.mark.parametrize("name", FILES)
def test_file_is_read_and_refused_by_its_name_only(name: str) -> None:
    draft, partial = read(FILES[name])
    assert f"{draft.family} ({draft.schema_id})" == name
    assert refusals(draft) == ["SD312"]
    assert rules_of(draft) == []
    facts = {"hidden_size": 4096, "mask_token_id": 151669, "num_target_layers": 36, "head_dim": 128}
    wanted = {**facts, **OWN[name]}
    assert {field: getattr(partial, field) for field in wanted} == wanted
    assert partial.target_layer_ids == (1, 9, 17, 25, 33)


@pytest.mark.parametrize(
    ("name", "open_fields"),
    [
        *((name, {"block_size", "layout"}) for name in FILES if "angelspec" in name),
        ("jetspec (nested)", {"layout"}),
    ],
)
def test_what_training_decides_waits(name: str, open_fields: set[str]) -> None:
    draft, _ = read(FILES[name])
    assert draft.reading is not None
    assert dict(draft.reading.unresolved) == dict.fromkeys(open_fields, "SD312")
    assert draft.reading.record is None
    outcome = with_target(draft)
    assert errors(outcome) == []
    assert status(outcome, "SD208") is CheckStatus.SKIP


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ({}, None),
        ({"hidden_size": 2560}, "SD201"),
        ({"num_hidden_layers": 64}, "SD202"),
        ({"vocab_size": 248320}, "SD203"),
        ({"rope_theta": 5e6}, "SD205"),
    ],
)
def test_pair_rules_run(name: str, target: dict[str, Any], rule: str | None) -> None:
    assert errors(with_target(judge(FILES[name]), **target)) == ([rule] if rule else [])


def test_depth_of_the_target_is_named_as_the_file_names_it() -> None:
    (found,) = with_target(judge(DFLY), num_hidden_layers=64).findings
    assert "target_num_hidden_layers is 36" in found.message
    assert found.locations[0].pointer == "/target_num_hidden_layers"


# (file, rule, what breaks it, the nearest that does not)
RULES: list[tuple[Raw, str, Raw, Raw]] = [
    (DFLASH2, "SD105", {IN + "conv_group_size": GONE},
     {IN + "conv_group_size": GONE, IN + "conv_kernel_size": GONE}),
    (DFLASH2, "SD105", {IN + "conv_kernel_size": None},
     {IN + "conv_kernel_size": GONE, "conv_kernel_size": 2}),
    (DFLASH2, "SD105", {IN + "selector_top_k": GONE},
     {IN + "selector_top_k": GONE, IN + "selector_rank": None}),
    (DFLASH2, "SD105", {IN + "block_size": GONE}, {IN + "block_size": GONE, "block_size": 8}),
    (DFLASH2, "SD110", {"block_size": 16}, {"block_size": 8}),
    (DFLASH2, "SD119", {IN + "conv_group_size": 24}, {IN + "conv_group_size": 32}),
    (DFLASH2, "SD108", {IN + "conv_kernel_size": 9}, {IN + "conv_kernel_size": 8}),
    (DFLASH2, "SD108", {IN + "selector_top_k": 151937}, {IN + "selector_top_k": 151936}),
    (DFLASH2, "SD108", {IN + "selector_rank": 0}, {IN + "selector_rank": 1}),
    (DFLASH2, "SD107", {IN + "selector_rank": "256"}, {}),
    (DFLASH2, "SD107", {IN + "conv_kernel_size": True}, {IN + "conv_kernel_size": 1}),
    (DFLASH2, "SD108", {IN + "output_multiplier": 0}, {IN + "output_multiplier": 0.196116}),
    (DFLASH2, "SD108", {IN + "final_logit_softcapping": -1.0},
     {IN + "final_logit_softcapping": 20.0}),
    (SPECFORGE, "SD105", {IN + "markov_rank": GONE}, {IN + "markov_rank": GONE, "markov_rank": 8}),
    (SPECFORGE, "SD107", {IN + "markov_rank": 256.0}, {IN + "markov_rank": 128}),
    (SPECFORGE, "SD107", {IN + "markov_head_type": "lstm"}, {IN + "markov_head_type": "rnn"}),
    (SPECFORGE, "SD110", {"markov_rank": 128}, {"markov_rank": 256}),
    (SPECFORGE, "SD110", {IN + "markov_rank": 0},
     {IN + "markov_rank": 0, IN + "confidence_head_with_markov": False}),
    (SPECFORGE, "SD119", {IN + "attention_mode": "mha"},
     {IN + "attention_mode": "mha", "num_key_value_heads": 32}),
    (SPECFORGE, "SD119", {"num_key_value_heads": 32}, {"num_key_value_heads": 16}),
    (SPECFORGE, "SD107", {IN + "attention_mode": 1}, {IN + "attention_mode": "GQA"}),
    (MODELOPT, "SD108", {IN + "markov_rank": 0}, {IN + "markov_rank": 1}),
    (MODELOPT, "SD107", {IN + "shift_label": 1}, {}),
    (MODELOPT, "SD107", {IN + "use_confidence_head": "yes"}, {IN + "use_confidence_head": False}),
    (HYBRID, "SD110", {"markov_rank": 0, IN + "markov_rank": 256}, {IN + "markov_rank": 256}),
    (HYBRID, "SD110", {"mask_token_id": 5}, {"mask_token_id": 151669}),
    (HYBRID, "SD105", {"block_size": GONE}, {IN + "block_size": 7}),
    (ANGELSPEC_DSPARK, "SD105", {"markov_rank": GONE}, {"markov_head_type": GONE}),
    (ANGELSPEC_DSPARK, "SD110", {"markov_rank": 0},
     {"markov_rank": 0, "enable_confidence_head": False}),
    (ANGELSPEC_DSPARK, "SD110", {"num_target_layers": 4}, {"num_target_layers": None}),
    (ANGELSPEC, "SD110", {"num_target_layers": 36}, {"num_target_layers": GONE}),
    (ANGELSPEC, "SD110", {"num_target_layers": "5"}, {"num_target_layers": 5}),
    (ANGELSPEC, "SD105", {"target_layer_ids": GONE}, {}),
    (ANGELSPEC, "SD108", {"mask_token_id": 151936}, {"mask_token_id": 151935}),
    (ANGELSPEC, "SD116", {"target_layer_ids": [1, 9, 9, 25, 33]}, {}),
    (ANGELSPEC, "SD107", {"fusion_type": "mlp"}, {"fusion_type": "concat_fc"}),
    (GATED, "SD110", {"target_hidden_size": 2048}, {"target_hidden_size": None}),
    (GATED, "SD108", {"gate_temperature": 0}, {"gate_temperature": 0.5}),
    (GATED, "SD110", {"target_hidden_size": 2048},
     {"target_hidden_size": 2048, "fusion_type": None}),
    (DFLY, "SD110", {"target_hidden_size": 2048}, {"target_hidden_size": GONE}),
    (DFLY, "SD110", {"num_target_layers": 6}, {}),
    (DFLY, "SD108", {"hidden_correction_intermediate_size": 0},
     {"hidden_correction_intermediate_size": 1}),
    (DFLY, "SD107", {"enable_hidden_correction": "true"}, {"enable_hidden_correction": None}),
    (DFLARE, "SD110", {"target_hidden_size": 2048}, {"target_hidden_size": 4096}),
    (DFLARE, "SD105", {IN + "mask_token_id": GONE}, {}),
    (ANGELSPEC_DFLARE, "SD110", {"target_hidden_size": 2048}, {}),
    (ANGELSPEC_DFLARE, "SD110", {"num_target_layers": 9}, {}),
    (JETSPEC, "SD107", {IN + "causal_head": "yes"}, {}),
    (JETSPEC, "SD105", {"block_size": GONE}, {IN + "block_size": 16}),
]  # fmt: skip


@pytest.mark.parametrize(("base", "rule", "breaks", "nearest"), RULES)
def test_rule_fires_alone_beside_the_refusal(
    base: Raw, rule: str, breaks: Raw, nearest: Raw
) -> None:
    assert refusals(judge(base, breaks)) == ["SD312", rule]
    assert refusals(judge(base, nearest)) == ["SD312"]


def test_both_halves_of_a_pair_of_fields_are_named() -> None:
    found = finding_of(judge(DFLASH2, {IN + "conv_group_size": GONE}), "SD105")
    assert found.message == (
        "draft conv_group_size is missing, dflash_config.conv_kernel_size is 2"
    )
    places = [(place.pointer, place.has_value) for place in found.locations]
    assert places == [
        ("/dflash_config/conv_group_size", False),
        ("/dflash_config/conv_kernel_size", True),
    ]


def test_a_malformed_half_does_not_hide_the_missing_one() -> None:
    draft = judge(DFLASH2, {IN + "conv_group_size": GONE, IN + "conv_kernel_size": "2"})
    assert sorted(rules_of(draft)) == ["SD105", "SD107"]


def test_count_of_captured_layers_names_both() -> None:
    found = finding_of(judge(DFLY, {"num_target_layers": 36}), "SD110")
    assert "num_target_layers is 36, target_layer_ids has 5 entries" in found.message
    assert [p.pointer for p in found.locations] == ["/num_target_layers", "/target_layer_ids"]


@pytest.mark.parametrize(
    ("base", "changes", "layout"),
    [
        (SPECFORGE, {"architectures": ["Qwen3DSparkModel"], "markov_rank": 256}, DROP),
        (SPECFORGE, {IN + "projector_type": GONE}, None),
        (SPECFORGE, {"num_anchors": 512}, None),
        (SPECFORGE, {IN + "sample_from_anchor": True}, None),
        (SPECFORGE, {IN + "sample_from_anchor": False}, DROP),
        (MODELOPT, {IN + "shift_label": False}, None),
        (MODELOPT, {IN + "shift_label": GONE}, None),
        (MODELOPT, {"sample_from_anchor": True}, FIRST),
        (MODELOPT, {"sample_from_anchor": False}, None),
        (HYBRID, {"rope_parameters": {**YARN, "rope_type": "default"}}, None),
        (HYBRID, {"num_anchors": 512}, None),
        (DFLASH2, {IN + "sample_from_anchor": True}, None),
        (DFLARE, {"num_anchors": GONE}, DROP),
        (DFLARE, {IN + "num_anchors": 512}, None),
    ],
)
def test_layout_is_given_where_the_file_shows_one(
    base: Raw, changes: Raw, layout: AnchorLayout | None
) -> None:
    draft, partial = read(base, changes)
    assert draft.reading is not None
    waits = draft.reading.unresolved.get("layout")
    assert (waits, getattr(partial, "layout", None)) == (
        "SD312" if layout is None else None,
        layout,
    )


def test_latent_attention_has_dimensions_of_its_own() -> None:
    latent: list[Raw] = [
        {IN + "attention_mode": "mla"},
        {IN + "attention_mode": GONE, IN + "attention_modes": ["gqa", "kda"]},
    ]
    for changes in latent:
        draft, _ = read(SPECFORGE, {**changes, "num_key_value_heads": 1})
        assert draft.reading is not None
        waiting = {"num_key_value_heads": "SD312", "head_dim": "SD312"}
        assert dict(draft.reading.unresolved) == waiting
        assert refusals(draft) == ["SD312"]


def test_head_dim_that_angelspec_leaves_out_is_hidden_size_over_heads() -> None:
    _, partial = read(ANGELSPEC, {"num_attention_heads": 64, "num_key_value_heads": 8})
    assert partial.head_dim == 64
    _, partial = read(ANGELSPEC, {"head_dim": 96})
    assert partial.head_dim == 96
    draft, _ = read(ANGELSPEC, {"hidden_size": "4096"})
    assert draft.reading is not None
    assert draft.reading.unresolved["head_dim"] == "SD312"
