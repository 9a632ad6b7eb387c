"""Everything that one boot can tell, as plain data. Standard library only.

A boot fills a `Report`; `server/render/` turns it into text, JSON and more. Bytes are
integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from server.findings import (
    Check,
    CheckStatus,
    ExitCode,
    Finding,
    JsonValue,
    Outcome,
    Severity,
    Verdict,
    exit_code_of,
    verdict_of,
)

# What a boot that ends early has not done; each clause is taken back when it is.
NOT_LOADED = "target not loaded"
NOT_TOUCHED = "device not touched"


class DraftFacts(NamedTuple):
    """The draft as it was asked for and found: `family` and `schema` are ids, or None.

    `how` says in words where the checkpoint was found.
    """

    asked: str
    path: str | None = None
    family: str | None = None
    schema: str | None = None
    layout: str | None = None
    how: str | None = None
    candidates: Mapping[str, str] = MappingProxyType({})


class TargetFacts(NamedTuple):
    """The target as it was asked for and found."""

    asked: str
    path: str | None = None
    architecture: str | None = None
    how: str | None = None


class LedgerLine(NamedTuple):
    """One line of the memory ledger. Billed lines sum to the limit.

    `measured_bytes` is None where nothing was measured (a reserve, say); `note` says what the
    line counts.
    """

    line: str
    billed_bytes: int
    measured_bytes: int | None = None
    note: str = ""

    @property
    def difference_bytes(self) -> int | None:
        """Measured minus billed, or None when nothing was measured."""
        return None if self.measured_bytes is None else self.measured_bytes - self.billed_bytes


class KvFacts(NamedTuple):
    """The KV pool. `usable_tokens` excludes the reserved blocks; lengths are in tokens.

    The types are those that are stored, or None where they are not known.
    """

    target_bytes_per_token: int
    draft_bytes_per_token: int
    block_tokens: int
    block_bytes: int
    num_blocks: int
    reserved_blocks: int
    usable_tokens: int
    max_model_len: int
    full_length_requests: int
    target_dtype: str | None = None
    draft_dtype: str | None = None


class RankFacts(NamedTuple):
    """The memory of one tensor-parallel rank."""

    rank: int
    device: str
    limit_bytes: int
    ledger: tuple[LedgerLine, ...]


class MemoryFacts(NamedTuple):
    """The device and its ledger. `notes` are one-line remarks (NVML, neighbours, reasons).

    `ranks`: the memory of every tensor-parallel rank, where there are several.
    """

    device: str
    total_bytes: int
    limit_bytes: int
    utilization: str
    ledger: tuple[LedgerLine, ...] = ()
    kv: KvFacts | None = None
    unexplained_bytes: int | None = None
    notes: tuple[str, ...] = ()
    ranks: tuple[RankFacts, ...] = ()


class PlanAnswer(NamedTuple):
    """What a plan says of one device.

    `fits`: one request of the length that is asked for has room, beside weights, activation and
    margin. `longest_tokens`: the longest request that would have; 0 when none does.
    """

    memory: MemoryFacts
    fits: bool
    longest_tokens: int


class PlanFacts(NamedTuple):
    """What --plan found, one answer per device.

    `smallest_gpu`: the smallest GPU of the table (`server/cards.py`) on which the pair fits, or
    None. `predicted`: the activation is a prediction, and not left out.
    """

    answers: tuple[PlanAnswer, ...] = ()
    smallest_gpu: str | None = None
    predicted: bool = False


class Phase(NamedTuple):
    """One phase of the boot and how long it took."""

    name: str
    ms: float


class SettingFacts(NamedTuple):
    """One setting as it is in force, with where it came from."""

    value: JsonValue
    source: str


_WORST = (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.SKIP, CheckStatus.PASS)


@dataclass(slots=True)
class Report:
    """What is known so far; renderers read it at any time, also half-way.

    `not_done` holds clauses for the verdict line ("target not loaded"). `ended_by_signal` is the
    number of the signal that ended the boot before its verdict.
    """

    draft: DraftFacts | None = None
    target: TargetFacts | None = None
    settings: dict[str, SettingFacts] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    memory: MemoryFacts | None = None
    plan: PlanFacts | None = None
    self_test: Mapping[str, JsonValue] | None = None
    phases: list[Phase] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0
    ended_by_signal: int | None = None

    def add(self, outcome: Outcome) -> None:
        """Append what one phase found. Of a rule that ran twice the worse status is kept,
        and every reason to skip it."""
        self.findings.extend(outcome.findings)
        for check in outcome.checks:
            known = self.checks.get(check.rule)
            if known is None or _WORST.index(check.status) < _WORST.index(known.status):
                self.checks[check.rule] = check
            elif check.status is known.status and check.reason not in known.reason:
                reason = f"{known.reason}; {check.reason}"
                self.checks[check.rule] = known._replace(reason=reason)

    def copy(self) -> "Report":
        """What is known now, while another thread goes on to add."""
        return replace(
            self,
            settings=dict(self.settings),
            checks=dict(self.checks),
            findings=list(self.findings),
            phases=list(self.phases),
            not_done=list(self.not_done),
        )

    @property
    def refused(self) -> bool:
        """True when at least one error was found."""
        return any(f.severity is Severity.ERROR for f in self.findings)

    @property
    def exit_code(self) -> int:
        """The exit code that the findings ask for; 128 + n when signal n ended the boot."""
        asked = exit_code_of(self.findings)
        if self.ended_by_signal is not None and asked is ExitCode.OK:
            return 128 + self.ended_by_signal
        return int(asked)

    @property
    def verdict(self) -> Verdict:
        """Accept, refuse or error. A boot that a signal ended was not judged to its end."""
        found = verdict_of(self.findings)
        ended = self.ended_by_signal is not None and found is Verdict.ACCEPT
        return Verdict.ERROR if ended else found
