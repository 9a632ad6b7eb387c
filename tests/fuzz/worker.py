"""One worker: a process that runs one engine, and writes down what it found as it goes."""

import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from tests.fuzz.faults import Faults
from tests.fuzz.judge import Fault, Harness, require_light
from tests.fuzz.seeds import fixed_target

Run: TypeAlias = Callable[[bytes], None]

_EVERY = 1000


@dataclass
class Tally:
    """What a worker has done so far; times in seconds of its processor, memory in KiB."""

    runs: int = 0
    processor_s: float = 0.0
    slowest_s: float = 0.0
    peak_kib: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


class Worker:
    """Judges what an engine makes up. A fault is kept, and the run goes on."""

    def __init__(self, out: Path, number: int, scratch: Path) -> None:
        """`out` is for faults and for this worker's tally, `scratch` for the files of inputs."""
        self._path = out / f"worker-{number}.json"
        folder = scratch / str(number)
        folder.mkdir()
        self._harness = Harness(folder, fixed_target())
        thorough = folder / "thorough"
        thorough.mkdir()
        again = Harness(thorough, fixed_target(), thorough=True)
        self._faults = Faults(out, again.run)
        self._begin_s = time.process_time()
        self.tally = Tally()

    def run(self, data: bytes) -> None:
        """Judge one input and count it."""
        tally = self.tally
        try:
            spent_s = self._harness.run(data).spent_s
            tally.slowest_s = max(tally.slowest_s, spent_s)
        except Exception as error:  # whatever the gate lets out is the finding
            self._faults.keep(data, error)
        tally.runs += 1
        if tally.runs % _EVERY == 0:
            self.write()

    def write(self) -> None:
        """Write the tally. The gate must still not have imported anything heavy."""
        tally = self.tally
        try:
            require_light()
        except Fault as error:
            self._faults.keep(b"", error)
        tally.processor_s = time.process_time() - self._begin_s
        tally.peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tally.verdicts = dict(self._harness.verdicts)
        tally.faults = dict(self._faults.found)
        self._path.write_text(json.dumps(asdict(tally)))
