"""The shipped schema takes every kind of report, and nothing that is not declared in it."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from server import process
from server.config.rules import RULES
from server.findings import CheckStatus, ExitCode, Outcome, Severity, Verdict
from server.render.config import schema_text
from server.render.json import FORMAT_VERSION, report_json
from server.report import PlanAnswer, PlanFacts, RankFacts, Report
from tests.render.reports import KINDS
from tests.render.test_json import make_report
from tests.rules.executed import execute
from tests.rules.registry import EXAMPLES
from tests.schema import DOCUMENT, faults

# Objects whose names are not fixed.
MAPS = ("settings", "candidates", "value")
SELF_TEST = {
    "kv_blocks": 3, "prompt_tokens": 20, "new_tokens": 2, "tokens": (5, 6), "paged_steps": 2,
    "speculative_steps": 2, "offered": (2,), "accepted": (1,), "remarks": ("a tie",), "ms": 1.5,
}  # fmt: skip


def full() -> dict[str, Any]:
    """A report in which no part is null."""
    report = make_report()
    report.self_test = SELF_TEST
    assert report.memory is not None
    rank = RankFacts(0, "CPU", 900, report.memory.ledger)
    report.memory = report.memory._replace(ranks=(rank,))
    report.plan = PlanFacts((PlanAnswer(report.memory, True, 7),), "l4-24g", True)
    document: dict[str, Any] = json.loads(report_json(report))
    return document


def test_the_schema_is_one_and_is_of_this_version() -> None:
    Draft202012Validator.check_schema(DOCUMENT)
    assert DOCUMENT["properties"]["format_version"] == {"const": FORMAT_VERSION}
    assert DOCUMENT["$id"].endswith(f":{FORMAT_VERSION}")
    assert json.loads(schema_text()) == DOCUMENT


def test_its_words_are_those_of_the_server() -> None:
    kinds = DOCUMENT["$defs"]
    assert DOCUMENT["properties"]["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert kinds["check"]["properties"]["status"]["enum"] == [s.value for s in CheckStatus]
    assert kinds["finding"]["properties"]["severity"]["enum"] == [s.value for s in Severity]
    assert list(DOCUMENT["properties"]["counts"]["properties"]) == [s.value for s in Severity]


@pytest.mark.parametrize("make", [*KINDS, Report, make_report], ids=lambda make: make.__name__)
def test_every_kind_of_report_is_valid(make: Callable[[], Report]) -> None:
    report = make()
    report.self_test = SELF_TEST if report.self_test else None
    assert faults(json.loads(report_json(report))) == []


def test_the_findings_of_every_rule_are_valid() -> None:
    report = Report()
    for example in EXAMPLES:
        report.add(Outcome(execute(example).fires))
    assert {finding.rule for finding in report.findings} == set(RULES)
    assert faults(json.loads(report_json(report))) == []


def explode(*_: object) -> None:
    raise KeyError("surprise")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--target", "sample:qwen3", "--draft", "sample:dflash", "--check"], ExitCode.OK),
        (["--target", "x", "--draft", "sample:dspine"], ExitCode.CONFIG),
        (["--bogus"], ExitCode.USAGE),
        (["--target", "crash"], ExitCode.SOFTWARE),
    ],
    ids=["accept", "refuse", "error", "crash"],
)
def test_what_a_run_writes_is_valid(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(process.Interrupts, "listen", lambda _: None)
    if "crash" in arguments:
        monkeypatch.setattr("server.gate.read_draft_config", explode)
    path = tmp_path / "report.json"
    files = ["--report-file", str(path), "--output-format", "json"]
    assert process.main([*arguments, *files]) == code
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(path.read_text())
    assert faults(printed) == []
    assert printed["exit_code"] == code


def objects(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Where the objects with fixed names are in a document."""
    if isinstance(node, dict):
        if not path or path[-1] not in MAPS:
            yield path
        for name, inner in node.items():
            yield from objects(inner, (*path, name))
    elif isinstance(node, list):
        for at, inner in enumerate(node):
            yield from objects(inner, (*path, at))


def at(document: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for step in path:
        document = document[step]
    return document


PLACES = list(objects(full()))


def test_the_full_report_is_valid_and_has_every_object_of_the_schema() -> None:
    assert faults(full()) == []
    found = {frozenset(at(full(), place)) for place in PLACES}

    def declared(node: Any) -> Iterator[frozenset[str]]:  # noqa: ANN401
        if isinstance(node, dict):
            if "required" in node:
                yield frozenset(node["properties"])
            for inner in node.values():
                yield from declared(inner)

    assert set(declared(DOCUMENT)) == found


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)) or "report")
def test_a_field_that_the_schema_lacks_or_the_report_lacks_is_found(
    place: tuple[Any, ...],
) -> None:
    more = full()
    at(more, place)["surprise"] = 1
    assert any("surprise" in fault for fault in faults(more))
    for name in at(full(), place):
        less = copy.deepcopy(full())
        del at(less, place)[name]
        assert faults(less), name


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("verdict",), "maybe"),
        (("verdict",), "accept"),  # its exit code is 78
        (("exit_code",), 0),
        (("memory", "limit_bytes"), 1.5),
        (("memory", "ledger", 0, "billed_bytes"), "600"),
        (("settings", "target"), {"value": "T"}),
        (("settings", "target", "value"), [[1]]),
        (("diagnostics", 0, "rule"), "SD1"),
        (("diagnostics", 0, "severity"), "fatal"),
        (("checks", 0, "status"), "maybe"),
        (("phases", 0, "ms"), "1"),
    ],
)
def test_a_value_of_another_kind_is_found(place: tuple[Any, ...], value: object) -> None:
    document = full()
    at(document, place[:-1])[place[-1]] = value
    assert faults(document)
