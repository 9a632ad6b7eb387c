"""SIGTERM at the end of a phase ends the boot at once, and the report says where it was."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.moments import PHASES
from tests.live.stalls import STALL, STUCK, started
from tests.process import SMALL, Finished
from tests.test_boot_process import TARGET, read_until

# The end of another one is the beginning of the next, in which tests/faults interrupts.
ENDS = tuple(phase for phase in PHASES if phase not in ("torch", "profile", "self-test"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_the_phases_are_those_of_a_boot(small_boot: Callable[[str | None], Finished]) -> None:
    assert [phase["name"] for phase in small_boot(None).json["phases"]] == list(PHASES)


@pytest.mark.parametrize(
    ("program", "phase"),
    [*((STALL, phase) for phase in ENDS), (STUCK, "tensor headers"), (STUCK, "KV pool")],
    ids=[*ENDS, "stuck in tensor headers", "stuck in KV pool"],
)
def test_a_signal_in_a_phase_ends_the_boot_with_a_report(
    cache: Path, tmp_path: Path, program: str, phase: str
) -> None:
    path, last_words = tmp_path / "report.json", tmp_path / "termination"
    where = ("--report-file", str(path), "--termination-log", str(last_words))
    with started(program, phase, *TARGET, *SMALL, *where, cache=cache) as process:
        read_until(process, "stalled")
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 143, rest
    assert "Traceback" not in rest
    assert rest.rstrip().splitlines()[-1].startswith("interrupted: ")
    report = json.loads(path.read_text())
    assert (report["verdict"], report["exit_code"]) == ("error", 143)
    assert report["diagnostics"][-1]["message"] == f"SIGTERM arrived in phase {phase}"
    if program == STALL:
        assert report["phases"][-1]["name"] == phase
    told = f"note[SD606] interrupted: SIGTERM arrived in phase {phase}\n"
    assert last_words.read_text().startswith(told)
