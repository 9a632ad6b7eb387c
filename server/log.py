"""Tells what happens while it happens: findings and phases, to the console and the report."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from server.findings import Outcome
from server.render.console import SILENT, Console, Output
from server.report import Phase, Report

if TYPE_CHECKING:
    from server.weights.progress import Meter

Found = TypeVar("Found")


class Refused(Exception):
    """The boot ends here; the report already holds why."""


class Log:
    """One boot's voice. Findings are printed at once, so that a later hang cannot hide them.

    `watch` is called with the name of each phase that begins; `loads` are the loads that have
    begun, by role.
    """

    def __init__(self, report: Report, console: Console, output: Output = SILENT) -> None:
        """Findings and phases go to `report`, and to `console` and `output` as they come."""
        self.report = report
        self.console = console
        self.output = output
        self.current = "start"
        self.watch: Callable[[str], None] | None = None
        self.loads: dict[str, Meter] = {}
        self._begin, self._age_s = time.monotonic(), _process_age_s()

    def elapsed_s(self) -> float:
        """Seconds since the process started, the interpreter and imports included."""
        return self._age_s + time.monotonic() - self._begin

    def tell(self, outcome: Outcome) -> None:
        """Record what one phase found, and print it."""
        self.report.add(outcome)
        for finding in outcome.findings:
            self.console.finding(finding)
            self.output.finding(finding)

    def require(self, outcome: Outcome) -> None:
        """Tell `outcome`; raises Refused when it holds an error."""
        self.tell(outcome)
        if outcome.refused:
            raise Refused

    def obtain(self, found: Found | None, outcome: Outcome) -> Found:
        """Tell `outcome`; what was found, or Refused, or RuntimeError when neither was given."""
        self.require(outcome)
        if found is None:
            raise RuntimeError(f"{self.current} gave neither a result nor a refusal")
        return found

    @contextmanager
    def phase(self, name: str, *, announce: bool = False) -> Iterator[None]:
        """Time one phase. `announce` prints a line when it starts and when it ends."""
        self.current, begin = name, time.monotonic()
        self.output.phase_begins(name)
        if self.watch is not None:
            self.watch(name)
        if announce:
            self.console.line(f"{name} ...")
        try:
            yield
        finally:
            spent_s = time.monotonic() - begin
            phase = Phase(name, round(spent_s * 1000, 3))
            self.report.phases.append(phase)
            self.output.phase_ends(*phase)
        if announce:
            self.console.line(f"{name}: {spent_s:.2f} s")


def _process_age_s() -> float:
    """How long this process has run, as the kernel counts it; 0 where it does not say."""
    try:
        with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
            ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
            return float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
