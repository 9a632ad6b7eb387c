"""Wall time of whole processes, side by side, for the benchmarks of what an operator waits for."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
PYDANTIC = "argparse + json + pydantic"

_PYDANTIC_CODE = """
import argparse, json
from pydantic import BaseModel, ConfigDict
class Draft(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)
    hidden_size: int
    block_size: int
    rope_theta: float
argparse.ArgumentParser().parse_args([])
Draft.model_validate(json.loads('{"hidden_size": 4096, "block_size": 16, "rope_theta": 1e6}'))
"""

# A name, the command line, and the exit code that it has to end with.
Commands: TypeAlias = Mapping[str, tuple[list[str], int]]
BARE: dict[str, tuple[list[str], int]] = {
    "python -c pass": ([sys.executable, "-c", "pass"], 0),
    PYDANTIC: ([sys.executable, "-c", _PYDANTIC_CODE], 0),
}


def environment(home: Path) -> dict[str, str]:
    """The environment of a measured process: caches in `home`, compiled files allowed."""
    env = os.environ | {"HOME": str(home), "SERVER_CACHE_DIR": str(home), "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # all start from compiled files
    return env


def seconds(command: list[str], expected: int, env: dict[str, str]) -> float:
    """Wall time of one process; raises RuntimeError when it does not exit as expected."""
    start = time.perf_counter()
    done = subprocess.run(command, env=env, cwd=env["HOME"], capture_output=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode != expected:
        raise RuntimeError(f"{command} exited {done.returncode}: {done.stderr.decode()[-500:]}")
    return elapsed


def measure(commands: Commands, rounds: int, home: Path) -> dict[str, float]:
    """Median seconds per command over `rounds` interleaved rounds, after one warm-up."""
    env = environment(home)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, (command, expected) in commands.items():
            elapsed = seconds(command, expected, env)
            if turn:
                times[name].append(elapsed)
    return {name: statistics.median(values) for name, values in times.items()}
