"""How rules run: a check names the fields it needs, and is skipped when one is unresolved."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from server.findings import Finding, JsonValue, Location, Outcome, outcome_of, skipped

Subject = TypeVar("Subject")
Record_co = TypeVar("Record_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """One rule as a pure function. `needs` are field names such as "draft.hidden_size"."""

    rule: str
    needs: tuple[str, ...]
    run: Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Reading(Generic[Record_co]):
    """A configuration file as far as it could be read.

    `record` exists only when every field is resolved. `partial` (made without validation) holds
    the valid fields, so that rules about them still run. `unresolved` maps each field that is
    missing or wrong to the rule that said so; `pointers` maps a field to the JSON pointer
    where its value was read. `file` is the path of the file as it is shown to people.
    """

    role: str
    file: str
    partial: Record_co
    record: Record_co | None
    unresolved: Mapping[str, str]
    pointers: Mapping[str, str]
    outcome: Outcome


def located(reading: Reading[Any], pointer: str | None, value: JsonValue) -> Location:
    """Where a field was read; one without a pointer is not in the file, but has a default."""
    source = None if pointer else "not in the file: the default of its format"
    return Location(reading.role, reading.file, pointer or None, None, value, source)


def run_checks(
    checks: Iterable[Check[Subject]], subject: Subject, unresolved: Mapping[str, str]
) -> Outcome:
    """Run every check whose needs are resolved; the others are skipped with what they wait on.

    `unresolved` maps a needed name ("draft.hidden_size") to the id of the rule that failed.
    """
    total = Outcome()
    for check in checks:
        waits = sorted({unresolved[need] for need in check.needs if need in unresolved})
        if waits:
            total += skipped(check.rule, f"waits on {', '.join(waits)}")
        else:
            total += outcome_of(check.rule, check.run(subject))
    return total
