"""Reports of every kind for the tests of formats, made of the server's own records."""

import signal

from server.config.rules import finding
from server.findings import Location, Outcome, outcome_of, skipped
from server.report import Report

REFUSAL = finding(
    "SD201",
    "draft hidden_size is 1,\n target 100%: 2",
    Location("draft", "/a,b:c%d/config.json", "/hidden_size", value=1),
    Location("target", "/t/config.json", "/hidden_size", value=2),
    fix="another draft",
)
USAGE = finding("SD704", "--x is y", Location("flag", flag="--x", value="y", source="flag --x"))
BUG = finding("SD608", "KeyError in phase load: 'x'", fix="report this")
NOTE = finding("SD111", "nothing reads it", Location("draft", "/d.json", "/x", value=3))
WARNING = finding("SD604", "<SERVER_X> & co", Location("env", flag="SERVER_X", has_value=False))
SIGNAL = finding("SD606", "SIGTERM arrived in phase load")

_SKIPPED = skipped("SD208", '--num-speculative-tokens is "not" set')
_KEPT = outcome_of("SD205", ())


def report_of(*outcomes: Outcome, ended_by_signal: int | None = None) -> Report:
    report = Report(not_done=["target not loaded"], elapsed_s=0.5, ended_by_signal=ended_by_signal)
    for outcome in outcomes:
        report.add(outcome)
    return report


def refused() -> Report:
    """A rule that is broken, one that is kept, one skipped, a warning and a note."""
    told = (outcome_of("SD604", [WARNING]), outcome_of("SD111", [NOTE]))
    return report_of(outcome_of("SD201", [REFUSAL]), _KEPT, _SKIPPED, *told)


def accepted() -> Report:
    return report_of(_KEPT, _SKIPPED, outcome_of("SD604", [WARNING]))


def misused() -> Report:
    return report_of(outcome_of("SD704", [USAGE]))


def crashed() -> Report:
    return report_of(_KEPT, outcome_of("SD608", [BUG]))


def interrupted() -> Report:
    return report_of(outcome_of("SD606", [SIGNAL]), ended_by_signal=signal.SIGTERM)


KINDS = (accepted, refused, misused, crashed, interrupted)
