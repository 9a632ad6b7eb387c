"""Inputs that only a process of its own can meet: signals and broken installations."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, NamedTuple

from server.config.rules import finding
from server.findings import Check, CheckStatus, Finding, Outcome, Severity
from server.weights.sample import materialise
from tests.process import ROOT, environment
from tests.rules.make_checkpoint import NAME, write_checkpoint

_REPORT = "report.json"
_COMMAND = "python -m server --target"
_ONE_RANK = "--device cpu --exit-after-boot"
_TWO_RANKS = f"{_ONE_RANK} --tensor-parallel-size 2"
_PATIENCE_S = 120


class Signalled(NamedTuple):
    """A signal that arrives while the boot waits for another process to write the sample."""

    number: signal.Signals

    @property
    def told(self) -> str:
        when = "while it waits for another process that writes this sample"
        return f"`{_COMMAND} sample:qwen3 --check` gets {self.number.name} {when}."

    def judge(self, folder: Path) -> Outcome:
        lock = materialise("sample:dspine", folder).parent / ".lock"
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with _started(folder, "sample:qwen3 --check") as process:
                _wait_for_lock(process)
                process.send_signal(self.number)
                fcntl.flock(held, fcntl.LOCK_UN)
                return _finish(process, folder)


class Ranks(NamedTuple):
    """Two ranks, of which the second gets a signal of its own as soon as it runs."""

    number: signal.Signals

    @property
    def told(self) -> str:
        return f"`{_COMMAND} ./{NAME} {_TWO_RANKS}`, whose second rank gets {self.number.name}."

    def judge(self, folder: Path) -> Outcome:
        write_checkpoint(folder / NAME, sharded=False)
        with _started(folder, f"./{NAME} {_TWO_RANKS}") as process:
            os.kill(_children(process, 2)[1], self.number)
            return _finish(process, folder)


class Installed(NamedTuple):
    """A copy of this server; `broken` is a file of it that imports what is not there."""

    broken: str | None

    @property
    def told(self) -> str:
        broken = f"`{self.broken}` imports a module that is not installed"
        state = broken if self.broken else "every module is installed"
        return f"`{_COMMAND} ./{NAME} --check`, where {state}."

    def judge(self, folder: Path) -> Outcome:
        write_checkpoint(folder / NAME, sharded=False)
        # What lies in the folder of the start comes before what is installed.
        copytree(ROOT / "server", folder / "server", ignore=ignore_patterns("__pycache__"))
        if self.broken:
            (folder / self.broken).write_text("import not_installed\n")
        with _started(folder, f"./{NAME} --check") as process:
            return _finish(process, folder)


class Threads(NamedTuple):
    """A process that may start threads, or none beside its first."""

    allowed: bool

    @property
    def told(self) -> str:
        state = "as many threads as it needs" if self.allowed else "no thread"
        return f"`{_COMMAND} ./{NAME} {_ONE_RANK}`, where the process may start {state}."

    def judge(self, folder: Path) -> Outcome:
        write_checkpoint(folder / NAME, sharded=False)
        if not self.allowed:
            # A limit on processes does not hold for the superuser.
            (folder / "sitecustomize.py").write_text(NO_THREADS)
        with _started(folder, f"./{NAME} {_ONE_RANK}") as process:
            return _finish(process, folder)


# What Python raises where pthread_create answers EAGAIN.
NO_THREADS = """
import threading
def refuse(*_):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = refuse
"""


@contextmanager
def _started(folder: Path, words: str) -> Iterator[subprocess.Popen[str]]:
    """The server, started in `folder` with `words` behind --target; it is ended at the end."""
    command = [*_COMMAND.split()[1:], *words.split()]
    with subprocess.Popen(
        [sys.executable, *command, "--report-file", _REPORT],
        env=environment(folder, {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for_lock(process: subprocess.Popen[str]) -> None:
    """Until the kernel lists `process` among those that wait for a lock."""
    waiting = re.compile(rf"-> FLOCK .* {process.pid} ")
    end = time.monotonic() + _PATIENCE_S
    while not waiting.search(Path("/proc/locks").read_text()):
        assert process.poll() is None, "the boot ended before it came to the lock"
        assert time.monotonic() < end
        time.sleep(0.01)


def _children(process: subprocess.Popen[str], count: int) -> list[int]:
    """The processes that `process` has started, once they are `count`."""
    listed, end = Path(f"/proc/{process.pid}/task/{process.pid}/children"), time.monotonic()
    while len(found := listed.read_text().split()) < count:
        assert process.poll() is None, "the boot ended before it started others"
        assert time.monotonic() < end + _PATIENCE_S
        time.sleep(0.01)
    return [int(pid) for pid in found]


# What a boot tells of the memory here and now, which is another page each time.
_OF_THE_MACHINE = ("SD507", "SD508", "SD511", "SD512")


def _finish(process: subprocess.Popen[str], folder: Path) -> Outcome:
    """What the process told of itself, as its report has it."""
    _, told = process.communicate(timeout=_PATIENCE_S)
    assert "Traceback" not in told, told
    # A crash file is named after its process, which is another one each time.
    text = (folder / _REPORT).read_text().replace(f"crash-{process.pid}", "crash-PID")
    report = json.loads(text)
    checks = (Check(c["rule"], CheckStatus(c["status"]), c["reason"]) for c in report["checks"])
    told_of = (d for d in report["diagnostics"] if d["rule"] not in _OF_THE_MACHINE)
    return Outcome(tuple(map(_finding, told_of)), tuple(checks))


def _finding(told: Mapping[str, Any]) -> Finding:
    severity = Severity(told["severity"])
    return finding(told["rule"], told["message"], fix=told["fix"], severity=severity)
