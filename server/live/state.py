"""What can be asked of a boot at any moment, from another thread."""

import json
from typing import Any, NamedTuple

from server.log import Log
from server.render.json import report_json
from server.report import Report


class Load(NamedTuple):
    """How far one model's weights are: "target" or "draft", and bytes."""

    role: str
    done_bytes: int
    total_bytes: int


class State:
    """A view of a boot that goes on. `ready` is set once everything is held."""

    def __init__(self, log: Log) -> None:
        """Read from `log`, which the boot writes to."""
        self.log = log
        self.ready = False

    @property
    def phase(self) -> str:
        """The phase that the boot is in; "ready" after the last."""
        return "ready" if self.ready else self.log.current

    @property
    def report(self) -> Report:
        """What is known by now, which does not change any more."""
        report = self.log.report.copy()
        if not self.ready:
            report.elapsed_s = self.log.elapsed_s()
        return report

    @property
    def loads(self) -> tuple[Load, ...]:
        """The models whose load has begun."""
        meters = tuple(self.log.loads.items())
        return tuple(Load(role, meter.done_bytes, meter.total_bytes) for role, meter in meters)

    def document(self) -> dict[str, Any]:
        """The JSON report as it stands, and "live". No verdict is given before it is known."""
        document: dict[str, Any] = json.loads(report_json(self.report))
        if not self.ready:
            document |= {"verdict": None, "exit_code": None}
        loads = [load._asdict() for load in self.loads]
        return document | {"live": {"ready": self.ready, "phase": self.phase, "loads": loads}}
