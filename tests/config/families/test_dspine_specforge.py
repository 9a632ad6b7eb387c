"""DSpine in SpecForge's spelling: the same refusal first, whatever else the file says."""

import pytest

from server.config.draft import ensure_servable
from tests.config.drafts import GONE, NESTED, Raw, finding_of, judge, refusals, rules_of

INJECTED: Raw = {
    **NESTED,
    "architectures": ["DSpineDraftModel"],
    "is_causal": True,
    "dspine_config": {"transfer_rank": 1024, "message_size": 512, "top_k": 16, "ce_weight": 0.1},
}


def test_it_is_dspine_and_refused_first() -> None:
    draft = judge(INJECTED)
    assert (draft.family, draft.schema_id, draft.served) == ("dspine", "hybrid", False)
    assert refusals(draft) == ["SD306"]
    (found,) = ensure_servable(draft, "auto").findings
    assert "dspine_config is" in found.message
    assert draft.tensors is None
    assert draft.reading is not None
    assert draft.reading.partial.uses_dspine


@pytest.mark.parametrize(
    ("changes", "family"),
    [
        ({"architectures": ["DFlashDraftModel"]}, "dspine"),
        ({"dspine_config": GONE}, "dspine"),
        ({"dspine_config": {}}, "dspine"),
        (
            {"dspine_config": GONE, "architectures": ["DFlashDraftModel"], "is_causal": GONE},
            "dflash",
        ),
        ({"dspine_config": None, "architectures": ["DFlashDraftModel"]}, "dflash"),
        ({"architectures": ["DFlash2DraftModel"]}, "dspine"),
        ({"architectures": ["DFlashDraftModel"], "dspine_config": "on"}, "dspine"),
    ],
)
def test_either_mark_is_enough_and_null_states_nothing(changes: Raw, family: str) -> None:
    draft = judge(INJECTED, changes)
    assert draft.family == family
    assert (refusals(draft)[:1] == ["SD306"]) is (family == "dspine")


def test_inside_dflash_config_it_is_dspine_too() -> None:
    draft = judge(NESTED, {"dflash_config/dspine_config": {"top_k": 0}})
    assert (draft.family, draft.schema_id) == ("dspine", "hybrid")
    assert finding_of(draft, "SD108").locations[0].pointer == "/dflash_config/dspine_config/top_k"


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"dspine_config/transfer_rank": 4096}, []),
        ({"dspine_config/transfer_rank": 4097}, ["SD108"]),
        ({"dspine_config/top_k": 151936}, []),
        ({"dspine_config/top_k": 151937}, ["SD108"]),
        ({"dspine_config/message_size": 0}, ["SD108"]),
        ({"dspine_config/message_size": "512"}, ["SD107"]),
        ({"dspine_config/top_k": GONE}, []),
        ({"block_size": GONE}, ["SD105"]),
        ({"block_size": 1}, ["SD108"]),
    ],
)
def test_its_faults_are_told_beside_the_refusal(changes: Raw, rules: list[str]) -> None:
    assert rules_of(judge(INJECTED, changes)) == rules
