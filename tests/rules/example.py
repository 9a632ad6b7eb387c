"""What a rule's example is: one executed input that fires the rule, and the nearest that does not.

The page of a rule shows `told`, so it is made from the data that `run` uses, never written by hand.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from server.findings import Finding


class Case(NamedTuple):
    """One executed input of a rule.

    `told` is the input as the page shows it: a short Markdown text (JSON edits, a command line, a
    file layout, a device's state). `run` gets an empty folder and gives every finding that was
    told.
    """

    told: str
    run: Callable[[Path], Sequence[Finding]]


class Example(NamedTuple):
    """A rule's firing input and the nearest input that does not fire it.

    `also` names other rules whose errors the firing input cannot avoid; a comment beside it says
    why.
    """

    rule: str
    fires: Case
    near: Case
    also: tuple[str, ...] = ()
