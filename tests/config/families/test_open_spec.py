"""DFlash in the Open Spec Config, as newer releases of speculators save it."""

import pytest

from server.config.families.model import UNKNOWN
from server.config.records import AnchorLayout
from tests.config.drafts import GONE, NESTED, Raw, finding_of, judge, make, refusals, rules_of
from tests.config.families.eagle_relatives import with_target
from tests.config.families.headers import layout_of
from tests.config.pairs import errors

CONFIG = "speculative_config/"
OPEN_SPEC: Raw = {
    **make(NESTED, {"dflash_config": GONE, "block_size": GONE, "num_target_layers": GONE}),
    "architectures": ["DflashDraftModel"],
    "open_spec_config_version": "0.0.0",
    "target_hidden_size": None,
    "speculators_metadata": {},
    "speculative_config": {
        "method": "dflash",
        "speculative_tokens": 7,
        "verifier": "Qwen/Qwen3-8B",
        "target_layer_ids": [2, 10, 18, 26, 34],
        "target_layer_start_idx": 1,
        "draft_vocab_size": 32000,
        "sample_from_anchor": False,
        "mask_token_id": 151669,
        "sliding_window_non_causal": False,
    },
}


def test_it_is_dflash_in_a_schema_of_its_own() -> None:
    draft = judge(OPEN_SPEC)
    assert (draft.family, draft.schema_id, draft.served) == ("dflash", "open-spec", False)
    assert (refusals(draft), rules_of(draft)) == (["SD312"], [])
    assert draft.reading is not None
    found = draft.reading.partial
    assert (found.block_size, found.layout, found.draft_tokens) == (8, AnchorLayout.DROP, 7)
    assert found.captured_outputs == (1, 9, 17, 25, 33)
    assert draft.reading.pointers["mask_token_id"] == "/speculative_config/mask_token_id"
    assert layout_of(draft)["lm_head.weight"].shape == (32000, 4096)


def test_tokens_and_layers_may_be_counted_the_other_way() -> None:
    changes = {"sample_from_anchor": True, "target_layer_start_idx": 0, "draft_vocab_size": GONE}
    draft = judge(OPEN_SPEC, {CONFIG + key: value for key, value in changes.items()})
    assert draft.reading is not None
    found = draft.reading.partial
    assert (found.block_size, found.layout) == (7, AnchorLayout.FIRST)
    assert found.captured_outputs == (2, 10, 18, 26, 34)
    assert found.draft_vocab_size is None


@pytest.mark.parametrize(
    ("key", "value", "rule", "words"),
    [
        ("target_layer_start_idx", GONE, "SD105", "target_layer_start_idx is missing"),
        ("target_layer_start_idx", 2, "SD108", "target_layer_start_idx is 2"),
        ("speculative_tokens", "7", "SD107", 'speculative_tokens is "7"'),
        ("sample_from_anchor", "false", "SD107", 'sample_from_anchor is "false"'),
        ("mask_token_id", None, "SD105", "mask_token_id is missing"),
        ("target_layer_ids", [10, 2], "SD116", "has 2 after 10"),
    ],
)
def test_its_own_faults_are_told(key: str, value: object, rule: str, words: str) -> None:
    draft = judge(OPEN_SPEC, {CONFIG + key: value})
    assert words in finding_of(draft, rule).message
    assert refusals(draft) == ["SD312", rule]


def test_the_pair_is_judged() -> None:
    assert errors(with_target(judge(OPEN_SPEC))) == []
    far = judge(OPEN_SPEC, {f"{CONFIG}target_layer_ids": [2, 10, 18, 26, 37]})
    assert errors(with_target(far)) == ["SD209"]


@pytest.mark.parametrize("method", ["eagle3", None])
def test_another_method_is_no_family_that_is_known(method: object) -> None:
    draft = judge(OPEN_SPEC, {f"{CONFIG}method": method})
    assert draft.family == UNKNOWN
    assert "speculative_config.method" in draft.undecided


def test_its_architecture_alone_is_enough() -> None:
    assert judge(OPEN_SPEC, {"open_spec_config_version": GONE}).schema_id == "open-spec"
    assert judge(OPEN_SPEC, {"speculative_config": None}).family == UNKNOWN
