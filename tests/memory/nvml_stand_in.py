"""A libnvidia-ml.so.1 for the tests, in place of a driver's: the real pynvml talks to it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.process import ROOT

SOURCE = Path(__file__).with_suffix(".c")

# What the library of a driver lacks, as options of the compiler.
WHOLE: tuple[str, ...] = ()
BEFORE_510 = ("-DWITHOUT_NEW",)
NOTHING = ("-DWITHOUT_ALL",)

# A sitecustomize.py for a boot whose NVML hangs: the time limit costs less.
IMPATIENT = "from server.memory import nvml\nnvml.LIMIT_S = 0.2\n"


class StandIn(NamedTuple):
    """A compiled library in `folder`, and the script that it reads."""

    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / "script"

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "NVML_SCRIPT": str(self.script)}


def compiled(folder: Path, options: tuple[str, ...] = WHOLE) -> StandIn:
    """Compile the library into `folder`; skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler to make a libnvidia-ml.so.1 with")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", *options, "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"the C compiler makes no library: {done.stderr[-200:]}")
    return StandIn(folder)


def gpu(letter: str, **more: object) -> dict[str, object]:
    """A GPU of 80 GiB, 70 GiB of them free, whose UUID begins with four times `letter`."""
    known = {"name": f"Card {letter}", "uuid": f"GPU-{letter * 4}-1", "total": 80 << 30}
    return {**known, "free": 70 << 30, "reserved": 1 << 29, **more}


def script(*gpus: Mapping[str, object], **everywhere: object) -> str:
    """The script of a machine with these GPUs; `parts` of a GPU are its MIG slices."""
    lines = [f"all.{key}={value}" for key, value in {"count": len(gpus), **everywhere}.items()]
    for index, told in enumerate(gpus):
        parts: Any = told.get("parts", ())
        own = {key: value for key, value in told.items() if key != "parts"}
        for who, values in ((str(index), own), *_parts(index, parts)):
            lines += [f"{who}.{key}={value}" for key, value in values.items()]
    return "\n".join(lines)


def _parts(index: int, parts: list[dict[str, object]]) -> list[tuple[str, dict[str, object]]]:
    return [(f"{index}/{place}", part) for place, part in enumerate(parts)]


class Asker:
    """A process that asks the real pynvml over one library. `dev` is its /dev."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.dev = folder / "dev"
        self.dev.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.memory.nvml_asker", str(folder)],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(
        self, told: str, device: str = "cuda", limit_s: float = 60, **environ: str
    ) -> dict[str, Any]:
        """The device that is found where the library reads `told`."""
        case = {"script": told, "device": device, "environ": environ, "limit_s": limit_s}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the asking process ended"
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> int:
        """Let the process end by itself; returns its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait(timeout=120)
