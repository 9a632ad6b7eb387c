"""Files that look plain and are not: one key off a served draft, at either level."""

import pytest

from server.findings import Severity
from tests.config.drafts import (
    DSPARK,
    DSPINE,
    FLAT,
    GONE,
    IDS,
    NESTED,
    Raw,
    judge,
    refusals,
    rules_of,
)

TOP_IDS: Raw = {"mask_token_id": 151669, "target_layer_ids": IDS}

# (base, rule, what breaks it, the nearest that does not)
CASES: list[tuple[Raw, str, Raw, Raw]] = [
    (FLAT, "SD303", {"architectures": ["Qwen3OmniDSparkModel"]}, {}),
    (DSPARK, "SD303", {"architectures": ["DSparkModel"]}, {}),
    (
        NESTED,
        "SD304",
        {"dflash_config": {}, **TOP_IDS},
        {"dflash_config": {"mask_token_id": 151669}, **TOP_IDS},
    ),
    (NESTED, "SD107", {"use_sliding_window": "unknown"}, {"use_sliding_window": None}),
    (NESTED, "SD107", {"use_sliding_window": 1}, {"use_sliding_window": True}),
    (NESTED, "SD107", {"sliding_window": "4096"}, {"sliding_window": 4096}),
    (NESTED, "SD107", {"sliding_window": True}, {"sliding_window": GONE}),
    (
        NESTED,
        "SD307",
        {"use_sliding_window": True, "sliding_window": GONE},
        {"use_sliding_window": True, "sliding_window": None},
    ),
    (NESTED, "SD108", {"rms_norm_eps": 1.0}, {"rms_norm_eps": 0.1}),
    (
        DSPARK,
        "SD110",
        {"markov_rank": 0},
        {"markov_rank": 0, "confidence_head_with_markov": False},
    ),
    (
        DSPARK,
        "SD105",
        {"markov_rank": GONE, "markov_head_type": GONE},
        {"markov_rank": GONE, "markov_head_type": GONE, "confidence_head_with_markov": False},
    ),
]


@pytest.mark.parametrize(("base", "rule", "broken", "sound"), CASES)
def test_near_miss_is_refused_by_its_own_rule(
    base: Raw, rule: str, broken: Raw, sound: Raw
) -> None:
    assert refusals(judge(base, broken)) == [rule]
    assert refusals(judge(base, sound)) == []


# (key, value that changes the arithmetic, value that does not, rule)
EITHER_LEVEL = [
    ("causal", True, False, "SD311"),
    ("is_causal", True, False, "SD311"),
    ("use_aux_hidden_state", False, True, "SD311"),
    ("use_swa", True, False, "SD307"),
    ("swa_window_size", 4096, None, "SD307"),
    ("swa_layer_pattern", "LLG", None, "SD307"),
    ("draft_sliding_window", 2048, None, "SD307"),
    ("sliding_window_non_causal", True, False, "SD307"),
]


@pytest.mark.parametrize("level", ["", "dflash_config/"])
@pytest.mark.parametrize(("key", "other", "plain", "rule"), EITHER_LEVEL)
def test_arithmetic_is_judged_wherever_it_is_stated(
    key: str, other: object, plain: object, rule: str, level: str
) -> None:
    broken = judge(NESTED, {level + key: other})
    assert rules_of(broken) == [rule]
    (found,) = broken.outcome.findings
    assert found.severity is Severity.ERROR
    assert found.locations[0].pointer == f"/{level}{key}"
    assert rules_of(judge(NESTED, {level + key: plain})) == []


@pytest.mark.parametrize("base", [FLAT, DSPARK])
@pytest.mark.parametrize(("key", "other", "plain", "rule"), EITHER_LEVEL)
def test_arithmetic_of_a_flat_file_is_judged_too(
    base: Raw, key: str, other: object, plain: object, rule: str
) -> None:
    assert rules_of(judge(base, {key: other})) == [rule]
    assert rules_of(judge(base, {key: plain})) == []


def test_every_clash_about_the_layout_is_told() -> None:
    both = judge(NESTED, {"num_anchors": 512, "dflash_config/sample_from_anchor": True})
    assert refusals(both) == ["SD304", "SD304"]


@pytest.mark.parametrize("level", ["", "dflash_config/"])
def test_window_or_causal_key_of_a_dspine_file_is_judged_at_either_level(level: str) -> None:
    assert rules_of(judge(DSPINE, {level + "draft_sliding_window": 2048})) == ["SD323"]
    assert rules_of(judge(DSPINE, {level + "causal": False})) == ["SD321"]
    assert rules_of(judge(DSPINE, {level + "causal": True, level + "use_swa": False})) == []
