"""What one fault is: how it is made, and what the boot must come to."""

from collections.abc import Callable
from typing import NamedTuple

from tests.faults.place import Place


class Fault(NamedTuple):
    """`said` is in the first error where it names a rule, else anywhere; `code` is the exit code,
    0 for what is no fault."""

    name: str
    prepare: Callable[[Place], None]
    code: int
    said: str


class Unavailable(Exception):
    """This machine cannot make the fault; the text says why."""
