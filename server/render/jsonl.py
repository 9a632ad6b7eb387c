"""The boot as JSON lines: each event is one object on one line, told when it happens.

The first line has the version, the last the verdict. `event` says what a line is.
"""

from server.findings import Finding, JsonValue
from server.render.console import Console, Output
from server.render.json import finding_facts, json_text, verdict_facts, version_facts
from server.report import Report


class JsonLines(Output):
    """Events: start, phase_start, phase_end, finding, verdict."""

    def __init__(self, console: Console) -> None:
        """Begin on `console`."""
        super().__init__(console)
        self._tell("start", version_facts())

    def phase_begins(self, name: str) -> None:
        """Tell a phase's name."""
        self._tell("phase_start", {"phase": name})

    def phase_ends(self, name: str, ms: float) -> None:
        """Tell how long it took."""
        self._tell("phase_end", {"phase": name, "ms": ms})

    def finding(self, finding: Finding) -> None:
        """Tell a finding as the report has it; notes too."""
        self._tell("finding", finding_facts(finding))

    def verdict(self, report: Report) -> None:
        """Tell the outcome."""
        seconds = round(report.elapsed_s, 3)
        self._tell("verdict", {**verdict_facts(report), "elapsed_s": seconds})

    def _tell(self, event: str, facts: dict[str, JsonValue]) -> None:
        self.console.line(json_text({"event": event, **facts}))
