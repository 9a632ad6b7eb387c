"""A short, repeatable run of the fuzzer, and proof that it would see a fault."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.blob import Blob, unpacked
from tests.fuzz.choose import Dice
from tests.fuzz.faults import Faults, cause_of
from tests.fuzz.judge import Fault, Harness, require_light
from tests.fuzz.mutator import material, mutated
from tests.fuzz.seeds import FAMILIES, fixed_target, seeds
from tests.fuzz.trees import dump, load, mutate
from tests.fuzz.with_hypothesis import inputs
from tests.mutations.text import Pairs

KNOWN = material(list(seeds()))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("fuzz"), fixed_target(), thorough=True)


@settings(
    max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(data=inputs(KNOWN))
def test_every_input_gets_a_verdict(harness: Harness, data: bytes) -> None:
    harness.run(data)


def test_every_seed_is_of_its_own_family_and_most_are_refused(harness: Harness) -> None:
    found = [harness.run(blob.packed()) for blob in KNOWN.blobs]
    assert len({one.family for one in found}) >= 10
    verdicts = [one.verdict.value for one in found]
    assert 1 <= verdicts.count("accept") < verdicts.count("refuse")


def test_the_same_seed_makes_the_same_inputs_and_other_ones_than_it_began_with() -> None:
    data = KNOWN.blobs[0].packed()
    made = [mutated(data, Dice(number), KNOWN) for number in range(50)]
    assert made == [mutated(data, Dice(number), KNOWN) for number in range(50)]
    assert len(set(made)) > 30


def test_an_input_is_one_run_of_bytes() -> None:
    blob = Blob(b"{}", b"", b'{"a": 1}')
    assert unpacked(blob.packed()) == blob
    assert unpacked(b"{}") == Blob(b"{}")


def test_a_tree_keeps_what_python_drops() -> None:
    text = b'{"a": 1, "a": 2, "b": ["\\ud800"]}'
    assert load(dump(load(text))) == load(text)
    assert dump(load(b'{"a": [1.5, null, "\\ud800"]}')) == b'{"a": [1.5, null, "\\ud800"]}'


def refuse_a_mask(data: bytes) -> None:
    """As a gate would that fails on every file with a mask token in dflash_config."""
    config = json.loads(unpacked(data).draft)
    if config.get("dflash_config", {}).get("mask_token_id"):
        raise Fault("seen")


def test_no_two_places_of_a_changed_tree_are_one_list() -> None:
    """Else a change of one is a change of thousands, and the next input fills the memory."""
    for number in range(1000):
        tree = mutate(load(KNOWN.blobs[number % 10].draft), Dice(number), KNOWN.pool)
        held: list[object] = []
        stack: list[object] = [tree]
        while stack:
            if isinstance(found := stack.pop(), list):
                held.append(found)
                stack += [pair[1] for pair in found] if isinstance(found, Pairs) else found
        assert len({id(one) for one in held}) == len(held), number


def test_a_fault_is_kept_once_with_a_small_input(tmp_path: Path) -> None:
    data = Blob(json.dumps(dict(FAMILIES["nested"])).encode(), fixed_target()).packed()
    assert cause_of(refuse_a_mask, data) == "seen"
    faults = Faults(tmp_path, refuse_a_mask)
    for _ in range(2):
        faults.keep(data, Fault("seen"))
    assert list(faults.found) == ["seen"]
    kept = unpacked((tmp_path / f"{faults.found['seen']}.input").read_bytes())
    assert kept.target == b""
    assert list(json.loads(kept.draft)["dflash_config"]) == ["mask_token_id"]
    assert set(json.loads(kept.draft)) == {"dflash_config"}


def test_the_cause_of_an_exception_is_where_it_was_raised() -> None:
    def parse(data: bytes) -> None:
        json.loads(data)

    assert cause_of(parse, b"[").startswith("JSONDecodeError at decoder.py:")
    assert cause_of(parse, b"[]") == ""


def test_what_is_heavy_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", sys)
    with pytest.raises(Fault, match="pynvml"):
        require_light()
