"""Faults that come while the boot is at work: signals, and files that change under it."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.faults.fault import Fault
from tests.faults.place import Place

# In the order of server/startup.py.
PHASES = (
    *("draft config", "servable", "target config", "tensor headers", "device", "torch", "load"),
    *("profile", "KV pool", "self-test", "ledger"),
)
# Of several ranks alone, and how many processes are in each.
PHASES_OF_RANKS = {"import torch": 1, "ranks": 2}
Prepare = Callable[[Place], None]
_SHARD = "model-00002-of-00003.safetensors"


def signalled(phase: str, *numbers: signal.Signals, processes: int = 1) -> Prepare:
    """Signals to the first process while so many are at work in one phase."""

    def act(process: subprocess.Popen[str]) -> None:
        for number in numbers:
            process.send_signal(number)

    def prepare(place: Place) -> None:
        # Under nohup a hang-up is ignored from the start.
        place.before.append(lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        place.in_phase(phase, act, processes)

    return prepare


def several(phase: str, *numbers: signal.Signals) -> Prepare:
    """Signals to the launcher while it, or its ranks, are in one phase."""

    def prepare(place: Place) -> None:
        place.use("-tp", "2")
        signalled(phase, *numbers, processes=PHASES_OF_RANKS[phase])(place)

    return prepare


def _planned(place: Place) -> None:
    place.use("--plan")
    signalled("plan", signal.SIGTERM)(place)


def changed(phase: str, change: Callable[[Path], None]) -> Prepare:
    """A shard of the target changes while one phase is at work."""
    return lambda place: place.in_phase(phase, lambda _: change(place.target / _SHARD))


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _replaced(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


def _written(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"\x00\x00")


def _clock(place: Place) -> None:
    place.module(
        "sitecustomize",
        "import itertools, time\nyears = itertools.count(0, -10**8)\n"
        "time.time = lambda: next(years) * 1.0\n",
    )


MOMENTS = (
    *(
        Fault(
            f"SIGTERM in phase {phase}",
            signalled(phase, signal.SIGTERM),
            143,
            f"SIGTERM arrived in phase {phase};",
        )
        for phase in PHASES
    ),
    *(
        Fault(
            f"SIGTERM in phase {phase}",
            several(phase, signal.SIGTERM),
            143,
            f"SIGTERM arrived in phase {phase};",
        )
        for phase in PHASES_OF_RANKS
    ),
    Fault("SIGTERM in phase plan", _planned, 143, "SIGTERM arrived in phase plan"),
    Fault("SIGINT in phase device", signalled("device", signal.SIGINT), 130,
          "SIGINT arrived in phase device;"),
    Fault("SIGHUP in phase device", signalled("device", signal.SIGHUP), 129,
          "SIGHUP arrived in phase device;"),
    Fault("SIGTERM three times", signalled("device", *[signal.SIGTERM] * 3), 143,
          "SIGTERM arrived in phase device;"),
    Fault("a shard cut short before the load", changed("device", _cut), 65, "error[SD415]"),
    Fault("a shard replaced before the load", changed("device", _replaced), 65, "[SD415]"),
    Fault("a shard written before the load", changed("device", _written), 65, "error[SD415]"),
    Fault("a shard removed before the load", changed("device", os.unlink), 65, "error[SD415]"),
    Fault("a shard cut short during the load", changed("load", _cut), 65, "error[SD415]"),
    Fault("a shard written during the load", changed("load", _written), 65, "error[SD415]"),
    Fault("a shard cut short after the load", changed("profile", _cut), 0, "accepted: "),
    Fault("a clock that jumps back", _clock, 0, "accepted: "),
)  # fmt: skip
