"""The speculators format: the anchor layout, and the proposal methods that show it too."""

import pytest

from server.config.draft import Draft
from server.config.records import AnchorLayout
from server.findings import Severity
from tests.config.drafts import GONE, Raw, finding_of, judge, rules_of
from tests.config.families.speculator_files import DFLASH, FILES

METHODS = "speculators_config/proposal_methods"
DROP, FIRST = AnchorLayout.DROP, AnchorLayout.FIRST


def field(draft: Draft, *names: str) -> tuple[object, ...]:
    """What was read for each of `names`."""
    assert draft.reading is not None
    return tuple(getattr(draft.reading.partial, name) for name in names)


def proposing(tokens: object) -> Raw:
    """The changes after which a block proposes `tokens`."""
    return {METHODS: [{"proposal_type": "greedy", "speculative_tokens": tokens}]}


@pytest.mark.parametrize(
    ("changes", "layout"),
    [
        ({}, DROP),
        ({"sample_from_anchor": True, **proposing(8)}, FIRST),
        ({"sample_from_anchor": GONE}, DROP),
        ({"sample_from_anchor": None}, DROP),
        ({"sample_from_anchor": GONE, **proposing(8)}, FIRST),
        ({"sample_from_anchor": GONE, "block_size": GONE, **proposing(8)}, FIRST),
        ({"sample_from_anchor": True, **proposing(3)}, FIRST),
        ({"sample_from_anchor": False, **proposing(3)}, DROP),
        ({"sample_from_anchor": False, METHODS: GONE}, DROP),
        ({"sample_from_anchor": True, "speculators_config": GONE}, FIRST),
    ],
)
def test_anchor_layout_is_shown(changes: Raw, layout: AnchorLayout) -> None:
    draft = judge(DFLASH, changes)
    assert rules_of(draft) == []
    assert field(draft, "layout") == (layout,)
    tokens = {DROP: 7, FIRST: 8}[layout]
    assert field(draft, "draft_tokens") == (tokens,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sample_from_anchor": True}, "sample_from_anchor is true, which is anchor-first"),
        (proposing(8), "speculative_tokens is 8 with block_size 8, which is anchor-first"),
        ({"sample_from_anchor": GONE, **proposing(5)}, "sample_from_anchor is missing"),
        ({"sample_from_anchor": GONE, METHODS: GONE}, "sample_from_anchor is missing"),
        ({"sample_from_anchor": GONE, **proposing("7")}, 'speculative_tokens is "7"'),
        ({"sample_from_anchor": GONE, **proposing(True)}, "sample_from_anchor is missing"),
    ],
)
def test_anchor_layout_that_is_not_shown_or_shown_twice(changes: Raw, words: str) -> None:
    draft = judge(DFLASH, changes)
    assert rules_of(draft) == ["SD304"]
    assert words in finding_of(draft, "SD304").message
    assert "num_anchors" not in finding_of(draft, "SD304").fix
    assert draft.reading is not None
    assert draft.reading.unresolved["layout"] == "SD304"
    assert finding_of(draft, "SD304").locations[0].pointer == "/sample_from_anchor"


def test_anchor_key_of_another_type_is_told() -> None:
    draft = judge(DFLASH, {"sample_from_anchor": "false"})
    assert rules_of(draft) == ["SD107"]


@pytest.mark.parametrize("algorithm", FILES)
def test_default_proposal_method_names_a_method(algorithm: str) -> None:
    named = "speculators_config/default_proposal_method"
    told = finding_of(judge(FILES[algorithm], {named: "sampling"}), "SD108")
    assert told.severity is Severity.ERROR
    assert 'is "sampling", one of the proposal types is needed: "greedy"' in told.message
    assert told.locations[0].pointer == f"/{named}"
    for plain in ("greedy", GONE, None):
        assert rules_of(judge(FILES[algorithm], {named: plain})) == []


def test_method_may_be_named_by_a_later_entry() -> None:
    methods = [{"proposal_type": "greedy", "speculative_tokens": 7}, {"proposal_type": "other"}]
    named = {"speculators_config/default_proposal_method": "other"}
    assert rules_of(judge(DFLASH, {METHODS: methods, **named})) == []
    assert rules_of(judge(DFLASH, {METHODS: methods[:1], **named})) == ["SD108"]
    assert rules_of(judge(DFLASH, {METHODS: []})) == ["SD108"]
