"""The rule tables of the draft side: complete, in plain words, each with a public source."""

import re

import pytest

from server.config.rules import RULES, dspine, files, unsupported
from server.findings import ExitCode, Rule, Severity

OWN = (*files.RULES, *unsupported.RULES, *dspine.RULES)
SOURCE = re.compile(r"https://|[\w.-]+/[\w.-]+ ([\w/.-]+\.\w+|pull request \d+|src/)")


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_rule_is_told_in_full(rule: Rule) -> None:
    assert RULES[rule.id] is rule
    for text in (rule.summary, rule.why, rule.fix):
        assert not text.endswith(".")
        assert len(text.split()) > 3
    assert SOURCE.search(rule.source), rule.source
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)


def test_ids_are_complete() -> None:
    ids = [rule.id for rule in OWN]
    assert ids == sorted(ids)
    assert ids == [f"SD{n}" for n in (*range(101, 120), *range(301, 313), *range(320, 337))]


def test_exit_codes_and_severities() -> None:
    by_code = {code: {r.id for r in OWN if r.exit_code is code} for code in ExitCode}
    assert by_code[ExitCode.DATAERR] == {"SD103", "SD104", "SD106"}
    assert by_code[ExitCode.NOINPUT] == {"SD101", "SD102", "SD112", "SD113", "SD114"}
    assert {r.id for r in OWN if r.severity is Severity.NOTE} == {"SD111"}
    assert {r.id for r in OWN if r.severity is Severity.WARNING} == {"SD115", "SD118"}
