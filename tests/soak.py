"""Boots and refusals, many in a row and several at once: nothing leaks, no verdict is wrong.

    python -m tests.soak [--runs 1000] [--at-once 8] [--seed 1]

One run in ten is a whole boot. The first half runs one after another, the second `--at-once` at a
time. Exits 1 when a verdict is wrong, or when a file, a process or shared memory is left.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from server.weights.sample import SAMPLE_NAMES, materialise
from tests.faults.place import files_below, run_program
from tests.process import SMALL, environment

_TARGET = ("--target", "sample:qwen3", "--device", "cpu", "--exit-after-boot", *SMALL)
_DFLASH = (*_TARGET, "--draft", "sample:dflash")


class Case(NamedTuple):
    """A command, the exit code, and how the last line begins."""

    argv: tuple[str, ...]
    code: int
    verdict: str


BOOTS = (
    Case(_DFLASH, 0, "accepted"),
    Case((*_TARGET, "--draft", "sample:dspark"), 0, "accepted"),
    Case((*_DFLASH, "--weights", "mapped"), 0, "accepted"),
)
VERDICTS = (
    Case((*_DFLASH, "--check"), 0, "accepted"),
    Case((*_TARGET, "--draft", "sample:dspine"), 78, "refused"),
    Case((*_TARGET, "--draft", "sample:dspine-invalid"), 78, "refused"),
    Case(("--target", "nowhere", "--draft", "sample:dflash"), 66, "refused"),
    Case((*_DFLASH, "--kv-cache-memory-bytes", "100TiB"), 69, "refused"),
    Case((*_DFLASH, "--draught", "x"), 2, "usage"),
)


def chosen(runs: int, seed: int) -> Iterator[Case]:
    """One boot in ten, in a random order that `seed` fixes."""
    dice = random.Random(seed)
    for number in range(runs):
        yield dice.choice(VERDICTS if number % 10 else BOOTS)


def wrong_with(root: Path, case: Case) -> str:
    """What is wrong with one run; nothing where all is well."""
    came = run_program(["-m", "server", *case.argv], environment(root), root)
    last = (came.stderr.splitlines() or [""])[-1]
    told = f"{' '.join(case.argv)}: exit {came.code}, {last!r}"
    if came.code != case.code or not last.startswith(case.verdict):
        return told
    if came.left_processes or came.left_files:
        return f"{told}, left {came.left_processes} processes and {came.left_files}"
    return f"{told}, a traceback" if "Traceback" in came.stderr else ""


def soak(root: Path, runs: int, at_once: int, seed: int) -> list[str]:
    """Everything that was wrong."""
    cases = list(chosen(runs, seed))
    middle = runs // 2
    judge = partial(wrong_with, root)
    for name in SAMPLE_NAMES:  # which stay
        materialise(name, root)
    files = files_below(root)
    wrong = list(map(judge, cases[:middle]))
    with ThreadPoolExecutor(at_once) as pool:
        wrong += pool.map(judge, cases[middle:])
    if left := files_below(root) - files:
        wrong.append(f"left below the cache: {sorted(left)}")
    return [one for one in wrong if one]


def main() -> int:
    """Run, and tell."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wrong = soak(Path(folder), asked.runs, asked.at_once, asked.seed)
    counts = Counter(case.code for case in chosen(asked.runs, asked.seed))
    sys.stdout.write(
        f"{asked.runs} runs (by exit code: {dict(sorted(counts.items()))}), "
        f"the second half {asked.at_once} at once, {time.monotonic() - begin:.0f} s: "
        f"{len(wrong)} wrong\n"
    )
    sys.stdout.writelines(f"- {one}\n" for one in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
