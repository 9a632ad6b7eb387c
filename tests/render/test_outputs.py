"""The formats of CI jobs: JSON lines, annotations, one line for each finding, JUnit."""

import io
import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.rules import RULES
from server.findings import Location, Severity
from server.render.console import Console, Output
from server.render.json import report_json
from server.render.junit import report_junit
from server.render.lines import annotation, concise_line
from server.render.outputs import output_of
from server.render.style import Style
from server.report import Report
from tests.render.reports import (
    BUG,
    KINDS,
    NOTE,
    REFUSAL,
    USAGE,
    WARNING,
    accepted,
    crashed,
    interrupted,
    misused,
    refused,
)

PLAIN = Style()


def tell(name: str, report: Report, verbose: bool = False) -> list[str]:
    """What a format writes for a report that is told from start to end."""
    stream = io.StringIO()
    output: Output = output_of(name, Console(stream, Style(verbose=verbose)), RULES)
    output.phase_begins("draft config")
    for finding in report.findings:
        output.finding(finding)
    output.phase_ends("draft config", 1.5)
    output.verdict(report)
    return stream.getvalue().splitlines()


def test_a_concise_line_has_place_rule_message_and_fix() -> None:
    assert concise_line(REFUSAL, PLAIN) == (
        "/a,b:c%d/config.json: SD201 hidden-size-mismatch: draft hidden_size is 1,\\x0a target "
        "100%: 2; fix: another draft"
    )
    assert concise_line(USAGE, PLAIN).startswith("--x: SD704 flag-value: --x is y; fix: ")
    assert concise_line(BUG, PLAIN).startswith("draftgate: SD608 internal-error: KeyError")
    assert concise_line(WARNING, PLAIN).startswith(
        "SERVER_X: SD604 unknown-environment-variable (warning): "
    )


@pytest.mark.parametrize(("name", "first"), [("concise", "/a,b"), ("github", "::error file=")])
def test_a_line_for_each_finding_and_the_verdict(name: str, first: str) -> None:
    lines = tell(name, refused())
    assert len(lines) == 3  # the note is not asked for
    assert lines[0].startswith(first)
    assert lines[-1].startswith("refused: 1 error, 1 warning, 1 note; ")
    assert len(tell(name, refused(), verbose=True)) == 4


def test_an_annotation_escapes_what_a_workflow_command_reserves() -> None:
    assert annotation(REFUSAL, PLAIN) == (
        "::error file=/a%2Cb%3Ac%25d/config.json,title=SD201 hidden-size-mismatch::"
        "draft hidden_size is 1,\\x0a target 100%25: 2%0Afix: another draft"
    )


@pytest.mark.parametrize(
    ("finding", "start"),
    [
        (WARNING, "::warning title=SD604 unknown-environment-variable::"),
        (NOTE, "::notice file=/d.json,title=SD111 "),
        (BUG, "::error title=SD608 internal-error::"),
    ],
)
def test_an_annotation_has_the_severity_and_a_file_where_there_is_one(
    finding: object, start: str
) -> None:
    assert annotation(finding, PLAIN).startswith(start)  # type: ignore[arg-type]


def decoded(line: str) -> tuple[str, str]:
    """File and message of an annotation, as the runner reads them."""
    properties, _, data = line.removeprefix("::error ").partition("::")
    fields = dict(part.split("=", 1) for part in properties.split(","))
    escapes = {"%3A": ":", "%2C": ",", "%0A": "\n", "%0D": "\r", "%25": "%"}

    def undo(text: str) -> str:
        return re.sub("%(3A|2C|0A|0D|25)", lambda found: escapes[found.group()], text)

    return undo(fields["file"]), undo(data)


@given(
    st.text("ab%:,\r\n;=0A", min_size=1),
    st.text(st.characters(blacklist_categories=["Cs"])).filter(lambda text: "://" not in text),
)
def test_no_file_or_message_can_forge_a_command(file: str, message: str) -> None:
    line = annotation(
        REFUSAL._replace(message=message, locations=(Location("draft", file),)), PLAIN
    )
    assert "\n" not in line
    assert "\r" not in line
    back = decoded(line)
    assert back[0] == file.replace("\r", "\\x0d").replace("\n", "\\x0a")
    assert back[1].endswith("\nfix: another draft")
    assert back[1].count("\n") == 1


@pytest.mark.parametrize("make", KINDS)
def test_json_lines_tell_phases_findings_and_the_verdict_in_order(
    make: Callable[[], Report],
) -> None:
    report = make()
    events = [json.loads(line) for line in tell("jsonl", report)]
    document = json.loads(report_json(report))
    found = ["finding"] * len(report.findings)
    assert [event.pop("event") for event in events] == [
        "start", "phase_start", *found, "phase_end", "verdict",
    ]  # fmt: skip
    start, began, *findings, ended, verdict = events
    assert start == {name: document[name] for name in ("format_version", "tool")}
    assert (began, ended) == ({"phase": "draft config"}, {"phase": "draft config", "ms": 1.5})
    assert findings == document["diagnostics"]
    assert verdict == {
        name: document[name] for name in ("verdict", "exit_code", "counts", "not_done", "elapsed_s")
    }


def test_each_line_is_flushed_when_it_is_told() -> None:
    raw = io.BytesIO()
    output = output_of("jsonl", Console(io.TextIOWrapper(raw, "utf-8"), PLAIN), RULES)
    output.phase_begins("load")
    assert json.loads(raw.getvalue().splitlines()[-1]) == {"event": "phase_start", "phase": "load"}


def suite_of(report: Report) -> ElementTree.Element:
    text = report_junit(report, RULES)
    assert text.isascii()
    (suite,) = ElementTree.fromstring(text)
    return suite


def results(report: Report) -> dict[str, list[str]]:
    """Test case to the tags inside it."""
    return {case.attrib["name"]: [part.tag for part in case] for case in suite_of(report)}


def test_junit_has_a_case_for_each_rule_that_was_checked() -> None:
    assert results(refused()) == {
        "SD201 hidden-size-mismatch": ["failure"],
        "SD205 rope-theta-mismatch": [],
        "SD208 draft-tokens-exceed-trained-block": ["skipped"],
        "SD604 unknown-environment-variable": ["system-out"],
        "SD111 ignored-key": ["system-out"],
    }
    suite = suite_of(refused())
    assert {name: suite.attrib[name] for name in ("name", "tests", "failures", "errors")} == {
        "name": "draftgate", "tests": "5", "failures": "1", "errors": "0",
    }  # fmt: skip
    assert (suite.attrib["skipped"], suite.attrib["time"]) == ("1", "0.500")
    failure = suite.find("testcase/failure")
    skipped = suite.find("testcase/skipped")
    assert failure is not None
    assert skipped is not None
    assert failure.attrib["message"] == "draft hidden_size is 1,\\x0a target 100%: 2"
    assert "fix     another draft" in (failure.text or "")
    assert skipped.attrib["message"] == '--num-speculative-tokens is "not" set'


@pytest.mark.parametrize(
    ("make", "failures", "errors"),
    [(accepted, 0, 0), (refused, 1, 0), (misused, 0, 1), (crashed, 0, 1), (interrupted, 0, 1)],
)
def test_junit_passes_only_what_is_accepted(
    make: Callable[[], Report], failures: int, errors: int
) -> None:
    suite = suite_of(make())
    told = (int(suite.attrib["failures"]), int(suite.attrib["errors"]))
    assert told == (failures, errors)
    assert told == (len(suite.findall("*/failure")), len(suite.findall("*/error")))
    assert (sum(told) == 0) is (make().exit_code == 0)


@given(st.text())
def test_junit_is_xml_whatever_a_message_holds(text: str) -> None:
    finding = REFUSAL._replace(message=text, locations=(Location(text, text, text, value=text),))
    report = refused()
    report.findings[0] = finding
    assert suite_of(report).find("testcase/failure") is not None


def test_the_severities_of_the_reports_differ() -> None:
    assert {f.severity for f in refused().findings} == set(Severity)
