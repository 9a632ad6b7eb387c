"""Real files: each is read without an exception, and shows the family that it is."""

import pytest

from server.config.draft import UNKNOWN, ensure_servable, read_draft
from server.findings import Severity
from tests.corpus import corpus_files

FOREIGN = (
    "dflare",
    "dflash2",
    "dfly",
    "domino",
    "dspark_nested",
    "dspark_speculators",
    "eagle",
    "eagle3",
    "medusa",
    "mtp",
    "peagle",
    "speculators",
    "target",
    "tensors",
)
SLIDING = "dflash-swa-export"


@pytest.mark.parametrize("folder", FOREIGN)
def test_foreign_families_are_refused(folder: str) -> None:
    for path in corpus_files(folder):
        draft = read_draft(path, strict=False)
        assert (draft.family, draft.reading) == (UNKNOWN, None), path.name
        assert [f.rule for f in ensure_servable(draft, "auto").findings] == ["SD302"], path.name


def test_nested_dflash_is_served() -> None:
    for path in corpus_files("dflash_nested"):
        draft = read_draft(path, strict=False)
        assert (draft.family, draft.schema_id) == ("dflash", "nested"), path.name
        assert not ensure_servable(draft, "auto").findings
        errors = {f.rule for f in draft.outcome.findings if f.severity is Severity.ERROR}
        assert errors == ({"SD307"} if SLIDING in path.name else set()), path.name


@pytest.mark.parametrize(
    ("folder", "family"), [("dflash_flat", "dflash"), ("dspark_flat", "dspark")]
)
def test_flat_schema_is_served_and_angelspec_is_not(folder: str, family: str) -> None:
    for path in corpus_files(folder):
        draft = read_draft(path, strict=True)
        refusal = ensure_servable(draft, "auto")
        if "AngelSpec" in path.name:
            assert draft.family == UNKNOWN, path.name
            assert refusal.refused
        else:
            assert (draft.family, draft.schema_id) == (family, "flat"), path.name
            assert not refusal.findings
            assert not draft.outcome.findings, path.name


def test_dspine_is_recognised_and_refused_first() -> None:
    for path in corpus_files("dspine"):
        draft = read_draft(path, strict=False)
        assert draft.family == "dspine"
        found = ensure_servable(draft, "auto").findings + draft.outcome.findings
        assert [f.rule for f in found] == ["SD306"]
