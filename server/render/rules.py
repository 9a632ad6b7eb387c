"""The pages of --list-rules and --explain. Rules come in as arguments, so nothing is imported."""

from collections.abc import Iterable
from textwrap import fill

from server.findings import Rule, Severity

_WIDTH = 100


def list_rules(rules: Iterable[Rule]) -> str:
    """One line for each rule: id, severity, exit code, name, summary."""
    known = sorted(rules, key=lambda rule: rule.id)
    width = max((len(rule.name) for rule in known), default=0)
    return "\n".join(
        f"{rule.id}  {rule.severity:<7}  {_exit(rule):>4}  {rule.name:<{width}}  "
        f"{' '.join(rule.summary.split())}"
        for rule in known
    )


def explain(rule: Rule) -> str:
    """The whole text of one rule."""
    ends = f"exit {int(rule.exit_code)}" if rule.severity is Severity.ERROR else "does not refuse"
    parts = (
        ("rule", rule.summary),
        ("why", rule.why),
        ("fix", rule.fix),
        ("source", rule.source),
    )
    head = f"{rule.severity}[{rule.id}] {rule.name} ({ends})"
    return "\n".join([head, *(_part(label, text) for label, text in parts if text)])


def _exit(rule: Rule) -> str:
    """The exit code, or a dash for a rule that does not refuse."""
    return str(int(rule.exit_code)) if rule.severity is Severity.ERROR else "-"


def _part(label: str, text: str) -> str:
    """One labelled paragraph; words (addresses, paths) are never broken."""
    return fill(
        " ".join(text.split()),
        width=_WIDTH,
        initial_indent=f"  {label:<8}",
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )
