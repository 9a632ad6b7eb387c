"""One faulty boot: a folder of its own, a command, what surrounds it, and what came of it."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from server.weights.sample import materialise
from tests.process import SMALL, environment

PATIENCE_S = 120
_SAMPLES = {"draft": "sample:dflash", "target": "sample:qwen3"}

# Runs the server with a pause in one phase: each of its processes that is in it says so in a
# file of its own, and goes on when the folder of these files is gone.
_PAUSED = """
import os, sys, time
from server.log import Log
phase, here = sys.argv[1:3]
del sys.argv[1:3]
announced = Log.phase
def paused(log, name, **more):
    block = announced(log, name, **more)
    enter = block.__enter__
    class Block:
        def __enter__(self):
            enter()
            if name == phase and os.path.isdir(here):
                open(os.path.join(here, str(os.getpid())), "w").close()
                while os.path.exists(here):
                    time.sleep(0.01)
        def __exit__(self, *fault):
            return block.__exit__(*fault)
    return Block()
Log.phase = paused
from server.__main__ import main
sys.exit(main())
"""


class Came(NamedTuple):
    """What a boot came to. `code` is negative where a signal ended it in the raw."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    left_files: tuple[str, ...]
    left_processes: int

    @property
    def headline(self) -> str:
        """The first error that was told, else the last line."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error[")]
        return (errors or lines[-1:] or [""])[0]


@dataclass
class Place:
    """Copies of the sample pair below `root`, and how the server is to be started there."""

    root: Path
    argv: list[str]
    env: dict[str, str]
    program: tuple[str, ...] = ("-m", "server")
    before: list[Callable[[], object]] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    during: Callable[[subprocess.Popen[str]], None] | None = None
    acted_s: float | None = None
    stdout: int | IO[str] = subprocess.PIPE
    stderr: int | IO[str] = subprocess.PIPE

    @property
    def draft(self) -> Path:
        """The draft's folder."""
        return self.root / "draft"

    @property
    def target(self) -> Path:
        """The target's folder."""
        return self.root / "target"

    def check(self) -> None:
        """Judge the files only."""
        self.argv.append("--check")

    def use(self, flag: str, *values: str) -> None:
        """Give a flag, or another value to one that is given."""
        if values and flag in self.argv:
            self.argv[self.argv.index(flag) + 1] = values[0]
            return
        self.argv += [flag, *values]

    def module(self, name: str, text: str) -> None:
        """Put a module in front of the one that is installed."""
        folder = self.root / "modules"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        self.env["PYTHONPATH"] = os.pathsep.join([str(folder), self.env["PYTHONPATH"]])

    def in_phase(
        self, phase: str, act: Callable[[subprocess.Popen[str]], None], processes: int = 1
    ) -> None:
        """Pause in `phase`, do `act` once so many processes are in it, and go on."""
        here, over = self.root / "here", self.root / "over"
        here.mkdir()
        self.program = ("-c", _PAUSED, phase, str(here))

        def during(process: subprocess.Popen[str]) -> None:
            _wait_for(lambda: len(os.listdir(here)) >= processes or process.poll() is not None)
            act(process)
            self.acted_s = time.monotonic()
            here.rename(over)
            shutil.rmtree(over)

        self.during = during

    def close(self) -> None:
        """Undo what outlives the boot."""
        for stream in (self.stdout, self.stderr):
            if not isinstance(stream, int):
                stream.close()
        for step in self.after:
            step()


def run_in(root: Path, prepare: Callable[[Place], None], samples: Path) -> Came:
    """Prepare a place below `root`, boot there, and look at what is left."""
    place = _make_place(root, samples)
    prepare(place)
    files = files_below(root)
    came = run_program([*place.program, *place.argv], place.env, root, place)
    return came._replace(left_files=(*sorted(files_below(root) - files), *came.left_files))


def run_program(
    arguments: list[str], env: Mapping[str, str], folder: Path, place: Place | None = None
) -> Came:
    """Run Python in a session of its own. `left_files` are of shared memory alone.

    The time is counted from the moment of the fault, where `place` has one during the boot.
    """
    begin = time.monotonic()
    steps = place.before if place else []
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=place.stdout if place else subprocess.PIPE,
        stderr=place.stderr if place else subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=(lambda: [step() for step in steps]) if steps else None,
    )
    try:
        if place and place.during:
            place.during(process)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        seconds = time.monotonic() - ((place and place.acted_s) or begin)
    finally:
        process.kill()
        process.wait()
        if place:
            place.close()
    code, left = process.returncode, _shared_memory_of(process.pid)
    return Came(code, stdout or "", stderr or "", seconds, left, _orphans(process.pid))


def _make_place(root: Path, samples: Path) -> Place:
    for role, name in _SAMPLES.items():
        shutil.copytree(materialise(name, samples), root / role)
    argv = ["--target", str(root / "target"), "--draft", str(root / "draft")]
    argv += ["--device", "cpu", "--exit-after-boot", *SMALL]
    (root / "home").mkdir()
    env: Mapping[str, str] = environment(
        root / "home", {"HOME": str(root / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    )
    return Place(root, argv, dict(env))


def files_below(root: Path) -> set[str]:
    """Every file below the place; folders of a cache may stay."""
    return {os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files}


def _shared_memory_of(pid: int) -> tuple[str, ...]:
    """Files that have the process's id in their name; other numbers may hold the same digits."""
    named = re.compile(rf"(?<!\d){pid}(?!\d)")
    return tuple(str(path) for path in Path("/dev/shm").glob("*") if named.search(path.name))


def _orphans(session: int) -> int:
    """How many processes of the boot's session still run, after a moment to end."""
    with suppress(TimeoutError):
        _wait_for(lambda: not _members(session), 30)
    return len(_members(session))


def _members(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if fields[3] == str(session) and fields[0] != "Z":
                found.append(stat.parent.name)
    return found


def _wait_for(what: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not what():
        if time.monotonic() > end:
            raise TimeoutError("it did not come to that")
        time.sleep(0.01)


@contextmanager
def writable_again(root: Path) -> Iterator[None]:
    """Afterwards every folder can be removed, whatever a fault made of it."""
    try:
        yield
    finally:
        for folder, _, _ in os.walk(root):
            with suppress(OSError):
                os.chmod(folder, 0o700)
