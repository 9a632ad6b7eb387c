"""The record of one rule. The text is what `--explain` prints."""

from dataclasses import dataclass

from server.findings import ExitCode, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

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
