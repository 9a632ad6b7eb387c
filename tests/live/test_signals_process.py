"""SIGTERM in any phase ends the boot at once, and the report says where it was."""

import json
import signal
from pathlib import Path

import pytest

from tests.live.stalls import STALL, STUCK, started
from tests.process import run
from tests.test_boot_process import ONCE, SMALL, TARGET, read_until

PHASES = (
    "draft config", "servable", "target config", "tensor headers", "device", "torch", "load",
    "profile", "KV pool", "self-test", "ledger",
)  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_every_phase_is_in_the_list_above(cache: Path) -> None:
    done = run(*TARGET, *SMALL, ONCE, "--output-format", "json", cache=cache)
    assert [phase["name"] for phase in done.json["phases"]] == list(PHASES)


@pytest.mark.parametrize(
    ("program", "phase"),
    [*((STALL, phase) for phase in PHASES), (STUCK, "tensor headers"), (STUCK, "KV pool")],
    ids=[*PHASES, "stuck in tensor headers", "stuck in KV pool"],
)
def test_a_signal_in_each_phase_ends_the_boot_with_a_report(
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
