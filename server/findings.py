"""What a boot finds out, as data: findings, checks, exit codes. Standard library only.

Renderers (`server/render/`) turn these into text and JSON; nothing here prints.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

JsonValue: TypeAlias = (
    bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
)


class Severity(StrEnum):
    """How much a finding weighs. Only an error refuses the boot."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ExitCode(IntEnum):
    """Process exit codes; a supervisor may rely on them (see docs/exit-codes.md)."""

    OK = 0
    USAGE = 2
    DATAERR = 65
    NOINPUT = 66
    UNAVAILABLE = 69
    SOFTWARE = 70
    TEMPFAIL = 75
    CONFIG = 78


# When findings ask for different codes, the first of these decides.
# A bug of ours comes after a refusal: it must not hide one.
EXIT_PRIORITY = (
    ExitCode.USAGE,
    ExitCode.CONFIG,
    ExitCode.SOFTWARE,
    ExitCode.DATAERR,
    ExitCode.NOINPUT,
    ExitCode.UNAVAILABLE,
    ExitCode.TEMPFAIL,
)


class CheckStatus(StrEnum):
    """What became of one rule in this run."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"


class Verdict(StrEnum):
    """The outcome of a run: refused is our judgement, error is a fault of usage or of ours."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    ERROR = "error"


class Location(NamedTuple):
    """Where a value was read: a file and JSON pointer, a flag, or a device.

    `role` labels the line for people (draft, target, flag, device). `value` is the value
    that was found there; `source` says where a setting came from, in words.
    """

    role: str
    file: str | None = None
    pointer: str | None = None
    flag: str | None = None
    value: JsonValue = None
    source: str | None = None
    has_value: bool = True


class Finding(NamedTuple):
    """One fault (or remark) of a run. `message` is one clause that stands alone."""

    rule: str
    name: str
    severity: Severity
    message: str
    locations: tuple[Location, ...]
    why: str
    fix: str
    docs: str
    exit_code: ExitCode


class Rule(NamedTuple):
    """One rule of the registry (`server/config/rules/`); its text is what `--explain` prints.

    `summary` says what must hold, `why` what would happen otherwise, `fix` the general remedy,
    `source` where the rule comes from (public repository and file, or issue address).
    """

    id: str
    name: str
    summary: str
    why: str
    fix: str
    source: str
    severity: Severity = Severity.ERROR
    exit_code: ExitCode = ExitCode.CONFIG


class Check(NamedTuple):
    """One rule of a run and what became of it; `reason` says why it was skipped."""

    rule: str
    status: CheckStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings and checks of one phase, in the order in which they should be told."""

    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        """First what this holds, then the other."""
        return Outcome(self.findings + other.findings, self.checks + other.checks)

    @property
    def refused(self) -> bool:
        """True when at least one finding is an error."""
        return any(f.severity is Severity.ERROR for f in self.findings)


def outcome_of(rule: str, findings: Iterable[Finding]) -> Outcome:
    """The outcome of one rule that ran: its findings, and pass, warn or fail."""
    found = tuple(findings)
    if not found:  # nearly all of them
        return Outcome((), (Check(rule, CheckStatus.PASS),))
    severities = {f.severity for f in found}
    status = CheckStatus.PASS
    if Severity.ERROR in severities:
        status = CheckStatus.FAIL
    elif Severity.WARNING in severities:
        status = CheckStatus.WARN
    return Outcome(found, (Check(rule, status),))


def outcome_by_rule(
    rules: Iterable[str], findings: Iterable[Finding] = (), skip: Mapping[str, str] | None = None
) -> Outcome:
    """One check for each of `rules`, in their order, each with its findings.

    `skip` maps a rule that did not run to the reason; a finding of that rule counts all the same.
    """
    found, total = tuple(findings), Outcome()
    for rule in rules:
        own = [f for f in found if f.rule == rule]
        reason = (skip or {}).get(rule)
        total += outcome_of(rule, own) if own or reason is None else skipped(rule, reason)
    return total


def skipped(rule: str, reason: str) -> Outcome:
    """The outcome of one rule that could not run, and why."""
    return Outcome((), (Check(rule, CheckStatus.SKIP, reason),))


def exit_code_of(findings: Iterable[Finding]) -> ExitCode:
    """The process exit code that the errors among `findings` ask for."""
    asked = {f.exit_code for f in findings if f.severity is Severity.ERROR}
    return next((code for code in EXIT_PRIORITY if code in asked), ExitCode.OK)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Accept, refuse (we judged the inputs and decline), or error (usage, or our own bug)."""
    code = exit_code_of(findings)
    if code is ExitCode.OK:
        return Verdict.ACCEPT
    return Verdict.ERROR if code in (ExitCode.USAGE, ExitCode.SOFTWARE) else Verdict.REFUSE


def first_line(error: BaseException) -> str:
    """What an error says in its first line, without the advice and the trace behind it."""
    return (str(error).splitlines() or [type(error).__name__])[0]
