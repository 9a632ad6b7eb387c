"""Turns two inputs of a rule into its example, and sees that the near one really was judged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from server.findings import CheckStatus, Finding, Outcome
from tests.rules.example import Case, Example

# Nothing records that these held: a boot tells them only where they fail.
_ONLY_FAILS = ("SD415", "SD418", "SD605", "SD606", "SD608", "SD609", "SD613")
# Where the weights just fit, no pool does: the next rule tells that this one held.
_SHOWN_BY = {"SD501": "SD502"}


class Input(Protocol):
    """An input of the server, which can tell itself and be judged in an empty folder."""

    @property
    def told(self) -> str:
        """The input in Markdown, the same on every machine."""

    def judge(self, folder: Path) -> Outcome:
        """Every finding and check that the input leads to."""


def make_example(rule: str, fires: Input, near: Input, also: tuple[str, ...] = ()) -> Example:
    def run_near(folder: Path) -> Sequence[Finding]:
        return _judged(rule, near.judge(folder))

    return Example(
        rule,
        Case(fires.told, lambda folder: fires.judge(folder).findings),
        Case(near.told, run_near),
        also,
    )


def _judged(rule: str, outcome: Outcome) -> Sequence[Finding]:
    """The findings; the rule must have run, since one that was skipped is silent for nothing."""
    told = {found.rule for found in outcome.findings}
    held = rule in {c.rule for c in outcome.checks if c.status is CheckStatus.PASS}
    held |= rule in _ONLY_FAILS and not outcome.refused
    held |= _SHOWN_BY.get(rule) in told
    assert held or rule in told, f"{rule} was not judged: {outcome}"
    return outcome.findings
