"""The third engine: the mutator with a random generator, and no look at coverage.

It is several times as fast as the guided one, and goes on from the inputs that one has kept.
"""

import sys
from pathlib import Path

from tests.fuzz.blob import unpacked
from tests.fuzz.choose import Dice, one_of
from tests.fuzz.mutator import material, mutated
from tests.fuzz.worker import Worker

_SMALL_BYTES = 3000  # a larger input takes the time of several


def main(arguments: list[str]) -> None:
    """OUT NUMBER RUNS SEED SEEDS SCRATCH."""
    out, number, runs, seed, seeds, scratch = arguments
    worker = Worker(Path(out), int(number), Path(scratch))
    known = material([unpacked(path.read_bytes()) for path in sorted(Path(seeds).iterdir())])
    kept = [path.read_bytes() for path in sorted(Path(out).glob("corpus-*/*"))]
    small = [data for data in kept if len(data) <= _SMALL_BYTES]
    starts = [*small, *(blob.packed() for blob in known.blobs)]
    dice = Dice(int(seed))
    data = b""
    for _ in range(int(runs)):
        # A walk of a few changes, each of which is judged.
        goes_on = 0 < len(data) < 2 * _SMALL_BYTES and dice.below(4)
        data = mutated(data if goes_on else one_of(dice, starts), dice, known)
        worker.run(data)
    worker.write()


if __name__ == "__main__":
    main(sys.argv[1:])
