"""Real files: each is read without an exception, and shows the family that it is."""

import pytest

from server.config.draft import UNKNOWN, ensure_servable, read_draft
from server.findings import Severity
from tests.corpus import corpus_files

SLIDING = "dflash-swa-export"
NAMED = [
    ("dflare", "dflare", "nested"),
    ("dflash2", "dflash2", "nested"),
    ("dfly", "dfly", "angelspec"),
    ("domino", "domino", "nested"),
    ("dspark_nested", "dspark", "nested"),
    ("dspark_speculators", "dspark", "speculators"),
    ("eagle3", "eagle3", "flat"),
    ("medusa", "medusa", "flat"),
    ("mtp", "mtp", "flat"),
    ("peagle", "p-eagle", "flat"),
]


@pytest.mark.parametrize(("folder", "family", "schema_id"), NAMED)
def test_other_families_are_refused_by_their_names(
    folder: str, family: str, schema_id: str
) -> None:
    for path in corpus_files(folder):
        draft = read_draft(path, strict=False)
        expected = "modelopt" if "Model-Optimizer-dspark" in path.name else schema_id
        assert (draft.family, draft.schema_id) == (family, expected), path.name
        (found,) = ensure_servable(draft, "auto").findings
        assert found.rule == "SD312", path.name
        assert f"{family} in the {expected} schema" in found.message
        assert not draft.outcome.refused, path.name


def test_speculators_format_is_of_the_algorithm_inside() -> None:
    for path in corpus_files("speculators"):
        draft = read_draft(path, strict=False)
        algorithm = path.name.split(".")[0].rpartition("-")[2]
        assert (draft.family, draft.schema_id) == (algorithm, "speculators"), path.name
        assert [f.rule for f in ensure_servable(draft, "auto").findings] == ["SD312"]


def test_one_layer_eagle_is_undecided() -> None:
    for path in corpus_files("eagle"):
        draft = read_draft(path, strict=False)
        assert (draft.family, draft.schema_id) == (UNKNOWN, None), path.name
        (found,) = ensure_servable(draft, "auto").findings
        assert found.rule == "SD302"
        assert "undecided between eagle and draft-model" in found.message


@pytest.mark.parametrize("folder", ["target", "tensors"])
def test_what_is_no_draft_is_refused(folder: str) -> None:
    for path in corpus_files(folder):
        draft = read_draft(path, strict=False)
        assert draft.family in (UNKNOWN, "draft-model"), path.name
        (found,) = ensure_servable(draft, "auto").findings
        assert found.rule == ("SD302" if draft.family == UNKNOWN else "SD312")


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
            assert (draft.family, draft.schema_id) == (family, "angelspec"), path.name
            assert [f.rule for f in refusal.findings] == ["SD312"]
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
