"""Exit codes and verdicts: what several findings ask for together."""

import itertools

import pytest

from server.config.rules import RULES, finding
from server.findings import (
    EXIT_PRIORITY,
    CheckStatus,
    ExitCode,
    Severity,
    Verdict,
    exit_code_of,
    outcome_of,
    skipped,
    verdict_of,
)

# One rule for each exit code.
BY_CODE = {
    ExitCode.USAGE: "SD703",
    ExitCode.CONFIG: "SD306",
    ExitCode.SOFTWARE: "SD608",
    ExitCode.DATAERR: "SD103",
    ExitCode.NOINPUT: "SD112",
    ExitCode.UNAVAILABLE: "SD501",
    ExitCode.TEMPFAIL: "SD503",
}


def test_every_exit_code_has_a_place_in_the_order() -> None:
    assert set(EXIT_PRIORITY) | {ExitCode.OK} == set(ExitCode)
    assert {rule.exit_code for rule in RULES.values()} <= set(EXIT_PRIORITY)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(EXIT_PRIORITY, 2)))
def test_the_earlier_code_decides_whatever_the_order_of_findings(
    first: ExitCode, second: ExitCode
) -> None:
    found = [finding(BY_CODE[second], "b"), finding(BY_CODE[first], "a")]
    assert exit_code_of(found) == exit_code_of(reversed(found)) == first


def test_warnings_and_notes_do_not_change_the_code() -> None:
    found = [finding("SD213", "a"), finding("SD111", "b")]
    assert exit_code_of(found) is ExitCode.OK
    assert verdict_of(found) is Verdict.ACCEPT
    raised = [finding("SD111", "b", severity=Severity.ERROR)]
    assert exit_code_of(raised) is ExitCode.CONFIG


@pytest.mark.parametrize(("code", "rule"), list(BY_CODE.items()))
def test_verdicts(code: ExitCode, rule: str) -> None:
    ours = code in (ExitCode.USAGE, ExitCode.SOFTWARE)
    assert verdict_of([finding(rule, "a")]) is (Verdict.ERROR if ours else Verdict.REFUSE)


def test_outcomes_keep_their_order_and_their_worst_status() -> None:
    both = outcome_of("SD213", [finding("SD213", "a")]) + outcome_of("SD201", [])
    assert [check.status for check in both.checks] == [CheckStatus.WARN, CheckStatus.PASS]
    assert not both.refused
    worse = both + outcome_of("SD202", [finding("SD202", "b")]) + skipped("SD203", "waits")
    assert worse.refused
    assert [check.status for check in worse.checks][2:] == [CheckStatus.FAIL, CheckStatus.SKIP]


def test_a_finding_carries_the_rule_s_text_and_its_own_fix() -> None:
    rule = RULES["SD201"]
    told = finding("SD201", "a", fix="b")
    assert (told.name, told.why, told.fix) == (rule.name, rule.why, "b")
    assert finding("SD201", "a").fix == rule.fix
    with pytest.raises(KeyError):
        finding("SD999", "a")
