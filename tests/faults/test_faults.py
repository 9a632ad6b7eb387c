"""Each fault gives one clear error and the right exit code, and leaves nothing behind."""

from pathlib import Path

import pytest

from tests.faults.fault import Fault, Unavailable
from tests.faults.judge import FAULTS, wrong_with
from tests.faults.moments import PHASES
from tests.faults.place import Came, run_in, writable_again

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("samples")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_one_clear_error(fault: Fault, tmp_path: Path, samples: Path) -> None:
    with writable_again(tmp_path):
        try:
            came = run_in(tmp_path, fault.prepare, samples)
        except Unavailable as reason:
            pytest.skip(str(reason))
    assert list(wrong_with(fault, came)) == [], came.stderr


def test_there_are_faults_enough_and_each_has_its_own_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60


def test_every_phase_of_the_boot_is_interrupted() -> None:
    text = (ROOT / "server" / "startup.py").read_text()
    named = [line.split('"')[1] for line in text.splitlines() if "with log.phase(" in line]
    # Not of every boot: a plan is interrupted too, several ranks in tests/test_ranks_process.py.
    others = ("plan", "import torch", "ranks")
    assert tuple(name for name in named if name not in others) == PHASES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"code": 70}, "exit code 70"),
        (
            {"stderr": "error[SD101] x\nTraceback (most recent call last)\nrefused: exit 66"},
            "a traceback",
        ),
        ({"stderr": "error[SD101] \x1b[2J\nrefused: exit 66"}, "control characters"),
        ({"stderr": "error[SD102] x\nrefused: exit 66"}, "does not say"),
        ({"stderr": "error[SD101] x\nand so on"}, "the last line"),
        ({"left_files": ("x",)}, "left files"),
        ({"left_processes": 1}, "left 1 processes"),
        ({}, ""),
    ],
)
def test_what_is_wrong_is_seen(change: dict[str, object], said: str) -> None:
    fault = Fault("a fault", lambda _: None, 66, "error[SD101]")
    came = Came(66, "", "error[SD101] x\nrefused: exit 66", 0.1, (), 0)
    found = list(wrong_with(fault, came._replace(**change)))
    assert [said in what for what in found] == ([True] if said else [])
