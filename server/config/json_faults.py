"""What is wrong with a JSON file: as plain data, and as findings of its rules."""

from enum import StrEnum
from typing import NamedTuple

from server.config.rules import finding
from server.config.values import Source
from server.findings import Finding, JsonValue, Location, Outcome, outcome_of, skipped


class FaultKind(StrEnum):
    """What is wrong with a file; a caller maps each kind to its own rule id."""

    NOT_FOUND = "SD101"
    UNREADABLE = "SD102"
    INVALID = "SD103"
    DUPLICATE = "SD104"
    NON_FINITE = "SD106"


class JsonFault(NamedTuple):
    """One fault. `message` is a clause; `pointer` and `value` are None for the whole file."""

    kind: FaultKind
    message: str
    pointer: str | None = None
    value: JsonValue = None


_FATAL = (FaultKind.NOT_FOUND, FaultKind.UNREADABLE, FaultKind.INVALID)


class Stop(Exception):
    """Reading cannot go on; the fault says why."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        """Keep the fault, which is of the whole file."""
        super().__init__(message)
        self.fault = JsonFault(kind, message)


def fault_outcome(faults: tuple[JsonFault, ...], source: Source) -> Outcome:
    """The findings, kind by kind; what waits on a fatal kind is skipped."""
    total = Outcome()
    for kind in FaultKind:
        found = [_finding(fault, source) for fault in faults if fault.kind is kind]
        total += outcome_of(kind.value, found)
        if found and kind in _FATAL:
            rest = list(FaultKind)[list(FaultKind).index(kind) + 1 :]
            return sum((skipped(k.value, f"waits on {kind.value}") for k in rest), total)
    return total


def _finding(fault: JsonFault, source: Source) -> Finding:
    if fault.pointer is None:
        location = Location(role=source.role, file=source.file, has_value=False)
        return finding(fault.kind.value, f"{source.role} config {fault.message}", location)
    location = source.near(fault.pointer)
    if fault.kind is FaultKind.NON_FINITE:
        location = source.at(fault.pointer, fault.value)
    return finding(fault.kind.value, f"{source.role} {fault.message}", location)
