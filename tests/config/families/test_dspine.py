"""DSpine: recognised by its bridge, judged by every published rule, and never served."""

import pytest

from server.config.draft import Draft, ensure_servable
from server.findings import CheckStatus, Severity
from tests.config.drafts import (
    BRIDGE,
    DSPINE,
    GONE,
    NESTED,
    REFINE,
    Raw,
    finding_of,
    judge,
    refusals,
    rules_of,
)

IN = "dflash_config/"
BR = IN + "selected_prefix_code_bridge/"
RE = IN + "selected_prefix_last_write_refine"
SECOND = "code_bridge_second_pass"
FULL, SLIDING = "full_attention", "sliding_attention"

# (rule, what breaks it, the nearest that does not)
CASES: list[tuple[str, Raw, Raw]] = [
    ("SD321", {IN + "draft_block_causal": GONE}, {}),
    ("SD321", {IN + "draft_block_causal": False}, {}),
    ("SD321", {IN + "draft_block_causal": 1}, {}),
    ("SD321", {"is_causal": False}, {"is_causal": True}),
    ("SD321", {IN + "is_causal": False}, {IN + "is_causal": True}),
    ("SD321", {"is_causal": 0}, {"is_causal": None}),
    ("SD322", {"layer_types": [FULL] * 4 + [SLIDING]}, {"layer_types": GONE}),
    ("SD322", {"layer_types": [FULL] * 4}, {"layer_types": None}),
    ("SD322", {"layer_types": FULL}, {}),
    ("SD322", {"layer_types": [FULL] * 4 + [None]}, {}),
    ("SD323", {"use_sliding_window": True}, {"use_sliding_window": GONE}),
    (
        "SD323",
        {"use_sliding_window": GONE, "sliding_window": 4096},
        {"use_sliding_window": False, "sliding_window": 4096},
    ),
    ("SD323", {IN + "use_swa": True}, {IN + "use_swa": False}),
    ("SD323", {IN + "swa_window_size": 4096}, {IN + "swa_window_size": None}),
    ("SD324", {"num_anchors": 512}, {"num_anchors": None}),
    ("SD324", {IN + "num_anchors": 512}, {IN + "num_anchors": None}),
    ("SD324", {"markov_rank": 256}, {"markov_rank": 0}),
    ("SD324", {IN + "markov_rank": 256}, {IN + "markov_rank": 0}),
    ("SD324", {IN + "markov_rank": True}, {IN + "markov_rank": None}),
    ("SD325", {BR + "terminal": True}, {BR + "terminal": False}),
    ("SD325", {BR + "terminal_enabled": 1}, {BR + "terminal_enabled": None}),
    ("SD325", {BR + "enable_terminal": {}}, {}),
    ("SD326", {BR + "write_mode": "serial"}, {BR + "write_mode": "independent"}),
    ("SD326", {BR + "independent_writes": False}, {BR + "independent_writes": True}),
    ("SD327", {BR + "feature_layers": GONE}, {BR + "feature_layers": [5]}),
    ("SD327", {BR + "feature_layers": 5}, {}),
    ("SD327", {BR + "feature_layers": []}, {}),
    ("SD327", {BR + "feature_layers": [1, "5"]}, {BR + "feature_layers": [1, 5]}),
    ("SD327", {BR + "feature_layers": [True, 5]}, {}),
    ("SD327", {BR + "feature_layers": [2, 2, 5]}, {BR + "feature_layers": [2, 3, 5]}),
    ("SD327", {BR + "feature_layers": [0, 5]}, {}),
    ("SD327", {BR + "feature_layers": [1, 4]}, {}),
    ("SD327", {BR + "feature_layers": [1, 6]}, {}),
    (
        "SD328",
        {IN + "selected_prefix_feature_reliability": True},
        {IN + "selected_prefix_feature_reliability": False},
    ),
    (
        "SD328",
        {IN + "selected_prefix_feature_next_token_rows": 2},
        {IN + "selected_prefix_feature_next_token_rows": 0},
    ),
    ("SD328", {IN + "selected_prefix_feature_next_token_rows": []}, {}),
    ("SD329", {BR + "rank": 0}, {BR + "rank": 128}),
    ("SD329", {BR + "rank": 1000}, {}),
    ("SD329", {BR + "rank": -128}, {}),
    ("SD329", {BR + "rank": "1024"}, {}),
    ("SD329", {BR + "rank": GONE}, {}),
    ("SD330", {BR + "code_size": 0}, {BR + "code_size": 1}),
    ("SD330", {BR + "code_size": True}, {BR + "code_size": 63}),
    ("SD330", {BR + "code_size": GONE}, {}),
    ("SD330", {BR + "eps": 0}, {BR + "eps": 1}),
    ("SD330", {BR + "eps": float("inf")}, {BR + "eps": 1e300}),
    ("SD330", {BR + "eps": float("nan")}, {}),
    ("SD330", {BR + "eps": "1e-6"}, {}),
    ("SD331", {RE: GONE}, {RE: GONE, SECOND: REFINE}),
    ("SD331", {RE: 5}, {}),
    ("SD331", {SECOND: [1]}, {SECOND: REFINE}),
    ("SD332", {SECOND: {**REFINE, "first_exact": 15}}, {SECOND: REFINE}),
    ("SD332", {SECOND: {**REFINE, "head_topk": 32}}, {SECOND: {**REFINE, "weight": 0.5}}),
    ("SD333", {RE + "/mode": "parallel_table"}, {}),
    ("SD333", {RE + "/first_exact": 5}, {RE + "/first_exact": 15}),
    ("SD333", {RE + "/first_exact": 4.0}, {RE + "/first_exact": 4}),
    ("SD333", {RE + "/head_topk": 1}, {RE + "/head_topk": 2}),
    ("SD333", {RE + "/head_topk": 128}, {RE + "/head_topk": 64}),
    ("SD333", {RE + "/head_topk": 24}, {RE + "/head_topk": 32}),
    ("SD333", {RE + "/head_topk": True}, {}),
    ("SD333", {RE + "/mode": GONE}, {}),
    ("SD334", {SECOND: {**REFINE, "head_topks": 1}}, {SECOND: {**REFINE, "version": 1}}),
    ("SD335", {"conv_kernel_size": 2}, {"conv_kernel_size": None}),
    ("SD335", {IN + "selector_top_k": 16}, {IN + "selector_top_k": None}),
    ("SD336", {"head_dim": 64}, {}),
    ("SD336", {"hidden_size": 2304}, {"hidden_size": 2560}),
]


def others(draft: Draft, rule: str) -> list[str]:
    return [found for found in rules_of(draft) if found != rule]


@pytest.mark.parametrize(("rule", "breaks", "nearest"), CASES)
def test_rule_fires_alone(rule: str, breaks: Raw, nearest: Raw) -> None:
    broken = judge(DSPINE, breaks)
    assert rule in rules_of(broken)
    # Two declarations that differ cannot both have the right values.
    assert set(others(broken, rule)) <= ({"SD333"} if rule == "SD332" else set())
    assert refusals(broken)[0] == "SD306"
    good = judge(DSPINE, nearest)
    assert rules_of(good) == []
    assert refusals(good) == ["SD306"]


@pytest.mark.parametrize("bridge", [{}, [], "x", 0, False, True, [BRIDGE]])
def test_partial_bridge_is_dspine_and_invalid(bridge: object) -> None:
    draft = judge(DSPINE, {IN + "selected_prefix_code_bridge": bridge})
    assert draft.family == "dspine"
    assert rules_of(draft) == ["SD320"]
    waiting = [c.rule for c in draft.outcome.checks if c.reason == "waits on SD320"]
    assert {"SD325", "SD326", "SD327", "SD329", "SD330"} <= set(waiting)
    assert refusals(draft) == ["SD306", "SD320"]


@pytest.mark.parametrize(
    "key",
    [
        "selected_prefix_last_write_refine",
        "selected_prefix_feature_reliability",
        "selected_prefix_feature_next_token_rows",
        "selected_prefix_something_new",
        "code_bridge_second_pass",
    ],
)
def test_dspine_only_key_without_a_bridge_is_a_partial_bridge(key: str) -> None:
    draft = judge(NESTED, {IN + key: {"mode": 1}})
    assert draft.family == "dspine"
    assert draft.evidence[0].pointer == f"/{IN}{key}"
    assert refusals(draft)[0] == "SD306"
    assert "SD320" in rules_of(draft)
    assert judge(NESTED, {IN + key: None}).family == "dflash"
    assert rules_of(judge(NESTED, {IN + key: None})) == []


def test_second_pass_at_top_level_without_a_bridge_is_partial() -> None:
    draft = judge(NESTED, {SECOND: REFINE})
    assert draft.family == "dspine"
    assert "SD320" in rules_of(draft)
    assert "SD115" not in rules_of(draft)


def test_null_bridge_is_plain_dflash() -> None:
    draft = judge(NESTED, {IN + "selected_prefix_code_bridge": None})
    assert (draft.family, rules_of(draft)) == ("dflash", [])


@pytest.mark.parametrize(
    "change",
    [
        {"selected_prefix_code_bridge": BRIDGE},
        {"draft_block_causal": True},
        {"selected_prefix_last_write_refine": REFINE},
        {IN + SECOND: REFINE},
    ],
)
def test_copy_where_nothing_reads_it_is_told(change: Raw) -> None:
    draft = judge(DSPINE, change)
    assert rules_of(draft) == ["SD115"]
    (path,) = change
    found = finding_of(draft, "SD115")
    assert found.severity is Severity.WARNING
    assert found.locations[0].pointer == f"/{path}"
    strict = judge(DSPINE, change, strict=True)
    assert finding_of(strict, "SD115").severity is Severity.ERROR


def test_all_faults_are_told_in_one_pass_malformed_types_included() -> None:
    draft = judge(
        DSPINE,
        {
            IN + "draft_block_causal": "yes",
            "layer_types": 3,
            "use_sliding_window": "on",
            "num_anchors": [],
            BR + "terminal": "x",
            BR + "write_mode": 4,
            BR + "feature_layers": "1,2,3",
            IN + "selected_prefix_feature_reliability": {},
            BR + "rank": "1024",
            BR + "code_size": True,
            BR + "eps": None,
            RE: {"mode": [], "first_exact": None, "head_topk": "x"},
            SECOND: {"odd": 1},
            "conv_kernel_size": "2",
            "head_dim": 64,
        },
    )
    wanted = {f"SD{n}" for n in range(321, 337)} - {"SD331"}
    assert wanted == {rule for rule in rules_of(draft) if rule.startswith("SD32")} | {
        rule for rule in rules_of(draft) if rule.startswith("SD33")
    }


def test_both_readings_of_l_are_accepted() -> None:
    for first_exact in (4, 15):
        assert rules_of(judge(DSPINE, {RE + "/first_exact": first_exact})) == []


def test_training_settings_are_never_checked() -> None:
    odd = {
        BR + "kappa": "x",
        BR + "teacher_kl": [1],
        IN + "selected_prefix_decode_mode": 7,
        IN + "selected_prefix_teacher_weight": None,
        RE + "/version": "?",
        RE + "/weight": -1,
    }
    assert rules_of(judge(DSPINE, odd)) == []


def test_unknown_bridge_key_is_a_note_and_unknown_nested_key_a_fault() -> None:
    draft = judge(DSPINE, {BR + "gate": 1, IN + "gate": 1, "gate": 1})
    assert rules_of(draft) == ["SD111", "SD109", "SD111"]
    assert draft.outcome.findings[0].severity is Severity.NOTE
    assert draft.outcome.findings[0].locations[0].pointer == f"/{BR}gate"


def test_plain_dflash_rules_hold_as_well() -> None:
    draft = judge(
        DSPINE,
        {
            "rope_theta": GONE,
            IN + "target_layer_ids": [9, 1],
            "architectures": ["Qwen3DSparkModel"],
        },
    )
    assert rules_of(draft) == ["SD105", "SD116", "SD303"]


def test_record_says_dspine_and_keeps_nothing_of_the_bridge() -> None:
    draft = judge(DSPINE)
    assert draft.reading is not None
    record = draft.reading.record
    assert record is not None
    assert (record.family, record.uses_dspine) == ("dspine", True)
    plain = judge(NESTED).reading
    assert plain is not None
    assert plain.record is not None
    assert plain.record.uses_dspine is False
    changed = {k: v for k, v in record.model_dump().items() if v != plain.record.model_dump()[k]}
    assert set(changed) == {"family", "uses_dspine"}


def test_refusal_comes_first_and_quotes_the_deciding_key() -> None:
    draft = judge(DSPINE, {BR + "kappa": "x" * 2**20})
    outcome = ensure_servable(draft, "auto")
    (found,) = outcome.findings
    assert found.rule == "SD306"
    assert found.severity is Severity.ERROR
    assert "dflash_config.selected_prefix_code_bridge" in found.message
    assert '"rank": 1024' in found.message
    assert found.locations[0].pointer == f"/{BR}".rstrip("/")
    assert len(found.message) < 300
    assert outcome.checks[0].rule == "SD306"
    assert outcome.checks[0].status is CheckStatus.FAIL
    assert "accept" not in (found.message + found.why + found.fix).lower()


def test_explicit_method_does_not_let_dspine_pass() -> None:
    for method in ("auto", "dflash", "dspark", "dspine"):
        assert refusals(judge(DSPINE), method)[0] == "SD306"
