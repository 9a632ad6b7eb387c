"""The pages of --list-rules and --explain."""

from typing import NamedTuple

from server.findings import ExitCode, Severity
from server.render.rules import explain, list_rules


class Rule(NamedTuple):
    id: str
    name: str
    summary: str = "what must hold"
    why: str = "what would happen"
    fix: str = "what to do"
    source: str = "https://example.org/issue"
    severity: Severity = Severity.ERROR
    exit_code: ExitCode = ExitCode.NOINPUT


def test_rules_are_listed_in_order_one_line_each() -> None:
    rules = [
        Rule("SD604", "unknown-variable", summary="two\n  lines", severity=Severity.WARNING),
        Rule("SD101", "not-found"),
    ]
    assert list_rules(rules) == (
        "SD101  error      66  not-found         what must hold\n"
        "SD604  warning     -  unknown-variable  two lines"
    )
    assert list_rules([]) == ""


def test_a_rule_is_explained_in_full() -> None:
    assert explain(Rule("SD101", "not-found")) == (
        "error[SD101] not-found (exit 66)\n"
        "  rule    what must hold\n"
        "  why     what would happen\n"
        "  fix     what to do\n"
        "  source  https://example.org/issue"
    )
    note = Rule("SD603", "no-nvml", severity=Severity.NOTE, source="")
    assert explain(note).splitlines()[0] == "note[SD603] no-nvml (does not refuse)"
    assert "source" not in explain(note)


def test_long_texts_are_wrapped_and_addresses_are_not_broken() -> None:
    address = f"https://example.org/{'a-' * 60}end"
    page = explain(Rule("SD101", "not-found", why="word " * 40, source=f"see {address}"))
    assert address in page
    assert all(len(line) <= 100 for line in page.splitlines() if address not in line)
