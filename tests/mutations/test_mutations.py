"""No wrong field of a served draft passes in silence, unless a ground says why it may."""

import pytest

from server.config.rules import finding
from server.findings import Location
from tests.corpus import corpus_root
from tests.mutations.cases import FIXTURES, FOLDERS, Case
from tests.mutations.harmless import grounds
from tests.mutations.judge import REFUSED, SILENT, Cell, names
from tests.mutations.mutate import mutants
from tests.mutations.table import Judged, judge_case, judge_real, unused

NESTED, *_ = FIXTURES
_DONE: dict[str, Judged] = {}


def judged(case: Case) -> Judged:
    if case.name not in _DONE:
        _DONE[case.name] = judge_case(case)
    return _DONE[case.name]


@pytest.mark.parametrize("case", FIXTURES, ids=lambda case: case.name)
def test_no_wrong_field_passes_in_silence(case: Case) -> None:
    found = judged(case)
    assert found.served
    assert not found.faults()


def test_every_ground_is_needed() -> None:
    assert grounds()
    assert unused(map(judged, FIXTURES)) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_real_drafts_as_well(folder: str) -> None:
    found = list(judge_real(corpus_root(), folder))
    assert found
    assert [fault for of in found for fault in of.faults()] == []


def test_a_field_is_named_by_its_whole_key() -> None:
    told = finding("SD404", "draft torch_dtype is bfloat17", Location("draft", pointer="/a/b"))
    assert names(told, ("torch_dtype",))
    assert not names(told, ("dtype",))
    assert names(told, ("b",))
    assert not names(told._replace(locations=(Location("target", pointer="/a/b"),)), ("b",))


def test_what_is_silent_without_a_ground_is_a_fault() -> None:
    silent = Cell("block_size", "delete", SILENT)
    refused = Cell("block_size", "delete", REFUSED, ("SD105",))
    assert Judged(NESTED, True, (refused, silent)).faults() == [
        f"{NESTED.name}: block_size, delete: SILENT"
    ]
    assert unused([Judged(NESTED, True, (silent,))]) == list(grounds())


def test_every_mutant_says_something_else() -> None:
    made = {(mutant.field, mutant.mutation): mutant.text for mutant in mutants(NESTED.draft)}
    assert '"block_size": "16"' in made["block_size", "string"]
    assert '"block_size": 16.0' in made["block_size", "number"]
    assert made["block_size", "twice, same"].count('"block_size": 16') == 2
    assert '"dflash_config": {"target_layer_ids"' in made["dflash_config.mask_token_id", "delete"]
    assert "[1, 9, 17, 25, 34]" in made["dflash_config.target_layer_ids[-1]", "+1"]
    assert "[1, 1, 9, 17, 25, 33]" in made["dflash_config.target_layer_ids[0]", "repeat"]
    assert ("rope_scaling", "null") not in made
