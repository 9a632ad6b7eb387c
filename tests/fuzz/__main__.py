"""Fuzzes the gate with several workers; exits with 1 when a fault was found.

Nothing of the server is imported here: an engine has to instrument it first.
"""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

_MEMORY = Path("/dev/shm")  # files of inputs go there where a system has it
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Start the workers, wait for them, and tell what they found."""
    options = _options()
    if options.replay:
        return _replay(options.replay)
    out = (options.out or Path(mkdtemp(prefix="fuzz-"))).absolute()
    out.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    with TemporaryDirectory(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        codes = _run(options, out, scratch)
    tallies = [json.loads(path.read_text()) for path in sorted(out.glob("worker-*.json"))]
    sys.stdout.write(f"{_told(tallies, time.monotonic() - begin_s)}\nfiles: {out}\n")
    faults = {known: name for tally in tallies for known, name in tally["faults"].items()}
    for known, name in faults.items():
        sys.stdout.write(f"FAULT {known}: {out / name}.txt\n")
    if any(codes) or len(tallies) < options.workers:
        sys.stderr.write(f"exit codes of the workers: {codes}\n")
        return 2
    return 1 if faults else 0


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="executions, over all workers")
    parser.add_argument("--engine", choices=("atheris", "hypothesis", "dice"), default="atheris")
    parser.add_argument("--seed", type=int, default=1, help="the first worker's; others count on")
    parser.add_argument("--seeds", type=Path, help="a folder of folders of real config files")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, help="a folder for what is found; one with a corpus is gone on from"
    )
    parser.add_argument("--replay", type=Path, nargs="+", help="judge these inputs and no others")
    return parser.parse_args()


def _run(options: Namespace, out: Path, scratch: str) -> list[int]:
    seeds = out / "seeds"
    write = [sys.executable, "-m", "tests.fuzz.seeds", str(seeds), *_real(options)]
    subprocess.run(write, cwd=ROOT, check=True)
    each = -(-options.runs // options.workers)
    engine = [sys.executable, "-m", f"tests.fuzz.with_{options.engine}"]
    started = []
    for number in range(options.workers):
        ours = [out, number, each, options.seed + number, seeds, scratch]
        with (out / f"log-{number}.txt").open("wb") as log:
            command = [*engine, *map(str, ours)]
            started.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
    return [worker.wait() for worker in started]


def _real(options: Namespace) -> list[str]:
    return [os.path.abspath(options.seeds)] if options.seeds else []


def _replay(paths: list[Path]) -> int:
    command = [sys.executable, "-m", "tests.fuzz.replay", *map(os.path.abspath, paths)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _told(tallies: list[dict[str, Any]], spent_s: float) -> str:
    runs = sum(tally["runs"] for tally in tallies)
    verdicts = sum((Counter(tally["verdicts"]) for tally in tallies), Counter[str]())
    slowest_s = max((tally["slowest_s"] for tally in tallies), default=0.0)
    peak_mib = max((tally["peak_kib"] for tally in tallies), default=0) / 1024
    rates = ", ".join(f"{tally['runs'] / max(tally['processor_s'], 1e-9):.0f}" for tally in tallies)
    lines = [f"{runs} runs in {spent_s:.0f} s; per second of processor time: {rates}"]
    lines.append(f"slowest run {slowest_s * 1000:.0f} ms, highest memory {peak_mib:.0f} MiB")
    lines += [f"{count:>9}  {name}" for name, count in sorted(verdicts.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
