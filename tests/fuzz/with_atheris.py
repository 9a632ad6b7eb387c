"""The coverage-guided engine: atheris (libFuzzer) with the mutator of this package.

Run as a process of its own, since libFuzzer ends the process that it runs in.
"""

import atexit
import sys
from pathlib import Path
from typing import Any

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["server"]):
    from tests.fuzz.worker import Worker

from tests.fuzz.blob import unpacked
from tests.fuzz.choose import Dice
from tests.fuzz.mutator import material, mutated


def main(arguments: list[str]) -> None:
    """OUT NUMBER RUNS SEED SEEDS SCRATCH: never returns, libFuzzer ends the process."""
    out, number, runs, seed, seeds, scratch = arguments
    worker = Worker(Path(out), int(number), Path(scratch))
    known = material([unpacked(path.read_bytes()) for path in sorted(Path(seeds).iterdir())])

    def mutator(data: bytes, max_size: int, seed: int) -> bytes:
        def other(part: bytes) -> bytes:
            return bytes(atheris.Mutate(part, max_size))

        changed = mutated(data, Dice(seed), known, other)
        return changed if len(changed) <= max_size else data

    def test(data: bytes) -> None:
        worker.run(bytes(data))
        if worker.tally.runs == int(runs):
            worker.write()

    atexit.register(worker.write)
    corpus = Path(out) / f"corpus-{number}"
    corpus.mkdir(exist_ok=True)
    flags = [f"-runs={runs}", f"-seed={seed}", "-max_len=12288", "-len_control=0", "-timeout=60"]
    quiet = ["-verbosity=0", f"-artifact_prefix={out}/"]
    setup: Any = atheris.Setup
    setup(["fuzz", *flags, *quiet, str(corpus), seeds], test, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
