"""The report as JUnit XML, which CI servers show: a test case for each rule that was checked.

The form is the one that https://github.com/testmoapp/junitxml describes.
"""

from collections.abc import Iterator, Mapping
from html import escape

from server.findings import Check, CheckStatus, ExitCode, Finding, Rule, Severity
from server.render.escape import visible
from server.render.style import Style
from server.render.text import render_finding, render_verdict
from server.report import Report

_STYLE = Style(verbose=True)
_NOT_THE_INPUTS = (ExitCode.USAGE, ExitCode.SOFTWARE)


def report_junit(report: Report, rules: Mapping[str, Rule]) -> str:
    """The report as one XML document in ASCII, without a newline at its end.

    A refusal is a failure of its rule. What is no judgement on the inputs (a wrong flag, a bug of
    ours, a signal) is an error. A warning or a note is printed in a case that passes.
    """
    cases = [*_cases(report, rules), *_run_case(report)]
    failed, broken, skipped = (
        sum(f"<{kind}" in case for case in cases) for kind in ("failure", "error", "skipped")
    )
    head = (
        f'<testsuite name="draftgate" tests="{len(cases)}" failures="{failed}" '
        f'errors="{broken}" skipped="{skipped}" time="{report.elapsed_s:.3f}">'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", f"  {head}"]
    lines += [f"    {case}" for case in cases]
    text = "\n".join([*lines, "  </testsuite>", "</testsuites>"])
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _cases(report: Report, rules: Mapping[str, Rule]) -> Iterator[str]:
    """A case for each rule that was checked, and for each finding of one that was not."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        found.setdefault(finding.rule, []).append(finding)
    for rule in dict.fromkeys([*report.checks, *found]):
        check = report.checks.get(rule) or Check(rule, CheckStatus.PASS)
        yield _case(f"{rule} {rules[rule].name}", _result(check, found.get(rule, [])))


def _run_case(report: Report) -> Iterator[str]:
    """A case of its own for a run that a signal ended, where no finding refuses it."""
    if report.ended_by_signal is not None and not report.refused:
        yield _case("verdict", _part("error", render_verdict(report, _STYLE), "signal"))


def _case(name: str, result: str) -> str:
    case = f'<testcase classname="draftgate" name="{_attribute(name)}"'
    return f"{case}>{result}</testcase>" if result else f"{case}/>"


def _result(check: Check, findings: list[Finding]) -> str:
    """What stands inside a case; nothing where the rule is kept."""
    told = "\n".join(render_finding(finding, _STYLE) for finding in findings)
    first = next((f for f in findings if f.severity is Severity.ERROR), None)
    if first is not None:
        kind = "error" if first.exit_code in _NOT_THE_INPUTS else "failure"
        return _part(kind, told, first.name, first.message)
    if findings:
        return f"<system-out>{escape(told)}</system-out>"
    if check.status is CheckStatus.SKIP:
        return f'<skipped message="{_attribute(check.reason)}"/>'
    return ""


def _part(kind: str, text: str, sort: str, message: str = "") -> str:
    summary = _attribute(message or text)
    return f'<{kind} message="{summary}" type="{_attribute(sort)}">{escape(text)}</{kind}>'


def _attribute(text: str) -> str:
    """`text` on one line, without characters that XML does not have."""
    return escape(visible(text))
