"""Each rule has one input that fires it and one near it that does not; both are run here."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping

import pytest

from server.config.rules import RULES
from server.findings import Severity
from tests.rules.example import Example
from tests.rules.executed import errors, execute
from tests.rules.registry import EXAMPLES

each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.rule)


def normal(text: str) -> str:
    """Text without case, punctuation, white space and numbers."""
    return " ".join(re.findall(r"[a-z]+", text.lower()))


def shared(values: Mapping[str, Hashable]) -> list[list[str]]:
    """The groups of names that have one value."""
    names = defaultdict(list)
    for name, value in values.items():
        names[value].append(name)
    return [group for group in names.values() if len(group) > 1]


def test_every_rule_has_exactly_one_example() -> None:
    assert [example.rule for example in EXAMPLES] == sorted(RULES)


@each
def test_the_firing_input_fires_its_rule_and_no_other(example: Example) -> None:
    rule, found = RULES[example.rule], execute(example).fires
    own = [f for f in found if f.rule == rule.id]
    assert rule.severity in {f.severity for f in own}
    assert all(f.message.strip() for f in own)
    wanted = {rule.id} if rule.severity is Severity.ERROR else set()
    assert errors(found) == wanted.union(example.also)


@each
def test_the_nearest_input_does_not_fire_it(example: Example) -> None:
    assert example.fires.told != example.near.told
    assert example.rule not in {found.rule for found in execute(example).near}


def test_no_example_excuses_its_own_rule() -> None:
    assert not [example.rule for example in EXAMPLES if example.rule in example.also]


@pytest.mark.parametrize("part", ["name", "summary"])
def test_no_two_rules_say_the_same(part: str) -> None:
    assert shared({rule.id: normal(getattr(rule, part)) for rule in RULES.values()}) == []


def test_no_two_rules_have_the_same_ground() -> None:
    assert shared({rule.id: normal(rule.why) for rule in RULES.values()}) == []


def test_no_two_rules_refuse_the_same_input_alike() -> None:
    refused = {
        example.rule: (example.fires.told, frozenset(errors(execute(example).fires)))
        for example in EXAMPLES
    }
    assert shared(refused) == []


def test_texts_that_differ_in_form_only_are_the_same() -> None:
    texts = {"a": "At most 5 % of it.", "b": "at  most 10% of it", "c": "at least 5 % of it"}
    assert shared({name: normal(text) for name, text in texts.items()}) == [["a", "b"]]
