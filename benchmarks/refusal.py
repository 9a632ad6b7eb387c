"""How long a refusal takes, against the price of its own imports.

    python -m benchmarks.refusal [--rounds 15]

Four whole processes, interleaved so that a slow moment hits all alike: a bare interpreter; one
that imports argparse, json and pydantic and validates one model; the refusal of a DSpine draft;
one that imports torch. Prints medians and ratios, and exits 1 when the refusal costs more
than 1.4 times the pydantic process or more than a fifth of the torch process.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PYDANTIC = """
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

PYDANTIC_LIMIT, TORCH_LIMIT = 1.4, 0.2


def seconds(command: list[str], expected: int, env: dict[str, str]) -> float:
    """Wall time of one process; raises RuntimeError when it does not exit as expected."""
    start = time.perf_counter()
    done = subprocess.run(command, env=env, cwd=env["HOME"], capture_output=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode != expected:
        raise RuntimeError(f"{command} exited {done.returncode}: {done.stderr.decode()[-500:]}")
    return elapsed


def measure(rounds: int, home: Path) -> dict[str, float]:
    """Median seconds per command over `rounds` interleaved rounds, after one warm-up."""
    env = os.environ | {"HOME": str(home), "SERVER_CACHE_DIR": str(home), "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # all four start from compiled files
    refusal = [sys.executable, "-m", "server", "--target", "nowhere", "--draft", "sample:dspine"]
    commands = {
        "python -c pass": ([sys.executable, "-c", "pass"], 0),
        "argparse + json + pydantic": ([sys.executable, "-c", PYDANTIC], 0),
        "refusal of a DSpine draft": (refusal, 78),
        "import torch": ([sys.executable, "-c", "import torch"], 0),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, (command, expected) in commands.items():
            elapsed = seconds(command, expected, env)
            if turn:
                times[name].append(elapsed)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        medians = measure(rounds, Path(home))
    refusal = medians["refusal of a DSpine draft"]
    for name, median in medians.items():
        print(f"{name:28} {median * 1000:8.1f} ms   refusal is {refusal / median:6.2f} x this")
    to_pydantic = refusal / medians["argparse + json + pydantic"]
    to_torch = refusal / medians["import torch"]
    print(f"limits: {to_pydantic:.2f} of {PYDANTIC_LIMIT} x, {to_torch:.3f} of {TORCH_LIMIT} x")
    return int(to_pydantic > PYDANTIC_LIMIT or to_torch > TORCH_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
