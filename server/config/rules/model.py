"""The record of one rule. The text is what `--explain` prints."""

from typing import NamedTuple

from server.findings import ExitCode, Severity


class Rule(NamedTuple):
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
