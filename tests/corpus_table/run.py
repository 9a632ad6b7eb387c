"""One boot in this process that ends at the gate, and what it told."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from server import startup
from server.findings import CheckStatus, Finding, Severity
from server.log import Log, Refused
from server.options import Options
from server.render.json import report_json
from server.report import Report
from tests.boots import make_log, make_options

Boot: TypeAlias = Callable[[Options, Log], object]
real_boot: Boot = startup.boot


@dataclass(frozen=True)
class Told:
    """What one run told; `trace` is the traceback when it raised, else empty."""

    report: Report
    trace: str

    @property
    def accepted(self) -> bool:
        """True when the configs were refused by nothing."""
        return not self.trace and not self.errors

    @property
    def errors(self) -> list[Finding]:
        """The findings that refuse, without those of weight files.

        Beside a file that is named config.json the gate looks for weights; here are none.
        """
        errors = [f for f in self.report.findings if f.severity is Severity.ERROR]
        return [finding for finding in errors if not finding.rule.startswith("SD4")]

    @property
    def rules(self) -> list[str]:
        """The rules of the errors, each once, in the order told."""
        return list(dict.fromkeys(finding.rule for finding in self.errors))

    @property
    def family(self) -> tuple[str, str | None]:
        """Family and schema that the gate named."""
        draft = self.report.draft
        return (draft.family or "none", draft.schema) if draft else ("none", None)

    @property
    def pair_judged(self) -> bool:
        """True when at least one pair rule ran."""
        checks = self.report.checks.values()
        return any(c.rule.startswith("SD2") and c.status is not CheckStatus.SKIP for c in checks)

    @property
    def pair_errors(self) -> list[str]:
        """The pair rules that refuse."""
        return [rule for rule in self.rules if rule.startswith("SD2")]

    @property
    def last_line(self) -> str:
        """The traceback's last line, which names the exception."""
        return self.trace.rstrip().rpartition("\n")[2]

    def json_bytes(self) -> bytes:
        """The JSON report without its timings."""
        self.report.phases = [phase._replace(ms=0.0) for phase in self.report.phases]
        self.report.elapsed_s = 0.0
        return report_json(self.report).encode()


def run(target: Path, draft: Path | None = None, boot: Boot = real_boot) -> Told:
    """Judge a pair, or a target alone. Never raises."""
    options = make_options(target, draft, check=True)
    log = make_log(options)
    try:
        boot(options, log)
    except Refused:
        pass
    except Exception:
        return Told(log.report, traceback.format_exc())
    return Told(log.report, "")
