"""The report gathers findings and checks; a signal decides only where nothing else did."""

import signal

from server.config.rules import finding
from server.findings import CheckStatus, Verdict, outcome_of, skipped
from server.report import LedgerLine, Report


def test_of_a_rule_that_ran_twice_the_worse_status_is_kept() -> None:
    report = Report()
    report.add(outcome_of("SD105", []))
    report.add(skipped("SD105", "waits on SD103"))
    assert report.checks["SD105"].status is CheckStatus.SKIP
    report.add(outcome_of("SD105", [finding("SD105", "a")]))
    report.add(outcome_of("SD105", []))
    assert report.checks["SD105"].status is CheckStatus.FAIL
    assert len(report.findings) == 1


def test_every_reason_to_skip_a_rule_is_kept() -> None:
    report = Report()
    for reason in ("no target", "no draft", "no draft"):
        report.add(skipped("SD401", reason))
    assert report.checks["SD401"].reason == "no target; no draft"


def test_a_signal_is_an_error_unless_something_was_refused() -> None:
    report = Report(ended_by_signal=signal.SIGTERM)
    assert (report.exit_code, report.verdict) == (143, Verdict.ERROR)
    report.add(outcome_of("SD306", [finding("SD306", "a")]))
    assert (report.exit_code, report.verdict) == (78, Verdict.REFUSE)


def test_a_line_differs_only_where_it_was_measured() -> None:
    assert LedgerLine("x", 5).difference_bytes is None
    assert LedgerLine("x", 5, 3).difference_bytes == -2
