"""Reading a draft from a file, and the one call that refuses a family."""

import json
from pathlib import Path

import pytest

from server.config import draft as module
from server.config.draft import UNKNOWN, ensure_servable, read_draft, served_schemas
from server.findings import CheckStatus
from tests.config.drafts import DSPARK, DSPINE, FLAT, NESTED, judge, make


def test_served_families_are_the_values_of_the_flag() -> None:
    assert set(served_schemas()) == {"dflash", "dspark"}


@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK])
def test_served_draft_is_not_refused(base: dict[str, object]) -> None:
    draft = judge(base)
    for method in ("auto", draft.family):
        outcome = ensure_servable(draft, method)
        assert not outcome.findings
        assert {check.status for check in outcome.checks} == {CheckStatus.PASS}
    assert not draft.outcome.findings


def test_method_that_contradicts_the_file_is_refused() -> None:
    (found,) = ensure_servable(judge(NESTED), "dspark").findings
    assert found.rule == "SD301"
    assert found.locations[0].flag == "--spec-method"
    assert found.locations[0].value == "dspark"
    assert "dflash" in found.message


def test_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(make(DSPINE)))
    draft = read_draft(path, strict=False)
    assert draft.family == "dspine"
    assert [f.rule for f in ensure_servable(draft, "auto").findings] == ["SD306"]


def test_unreadable_file_is_refused_by_the_reader_only(tmp_path: Path) -> None:
    draft = read_draft(tmp_path / "none.json", strict=False)
    assert (draft.family, draft.schema_id, draft.reading) == (UNKNOWN, None, None)
    assert [f.rule for f in draft.outcome.findings] == ["SD101"]
    assert not ensure_servable(draft, "auto").findings
    assert not ensure_servable(draft, "dflash").findings


def test_broken_json_does_not_hide_the_rest(tmp_path: Path) -> None:
    text = json.dumps(make(DSPINE))[:-1] + ', "head_dim": 128, "rms_norm_eps": NaN}'
    path = tmp_path / "config.json"
    path.write_text(text)
    draft = read_draft(path, strict=False)
    assert [f.rule for f in draft.outcome.findings] == ["SD104", "SD104", "SD106"]
    assert [f.rule for f in ensure_servable(draft, "auto").findings] == ["SD306"]
    assert draft.reading is not None
    assert draft.reading.unresolved == {"rms_norm_eps": "SD106"}


def test_without_its_branch_the_registry_refuses_dspine(monkeypatch: pytest.MonkeyPatch) -> None:
    # A valid DSpine file has no fault of its own: nothing but this one call stops it.
    draft = judge(DSPINE)
    assert ensure_servable(draft, "auto").refused
    assert not draft.outcome.refused
    monkeypatch.setattr(module, "DSPINE", "no such family")
    assert [f.rule for f in ensure_servable(draft, "auto").findings] == ["SD312"]
