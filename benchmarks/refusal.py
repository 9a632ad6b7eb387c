"""How long a refusal takes, against the price of its own imports.

    python -m benchmarks.refusal [--rounds 15]

Four whole processes, interleaved so that a slow moment hits all alike: a bare interpreter; one
that imports argparse, json and pydantic and validates one model; the refusal of a DSpine draft;
one that imports torch. Prints medians and ratios, and exits 1 when the refusal costs more
than 1.4 times the pydantic process or more than a fifth of the torch process.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import BARE, PYDANTIC, Commands, measure

REFUSAL, TORCH = "refusal of a DSpine draft", "import torch"
PYDANTIC_LIMIT, TORCH_LIMIT = 1.4, 0.2


def commands() -> Commands:
    """The four processes and the exit codes that they have to end with."""
    refusal = [sys.executable, "-m", "server", "--target", "nowhere", "--draft", "sample:dspine"]
    return BARE | {
        REFUSAL: (refusal, 78),
        TORCH: ([sys.executable, "-c", "import torch"], 0),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        medians = measure(commands(), rounds, Path(home))
    refusal = medians[REFUSAL]
    for name, median in medians.items():
        print(f"{name:28} {median * 1000:8.1f} ms   refusal is {refusal / median:6.2f} x this")
    to_pydantic, to_torch = refusal / medians[PYDANTIC], refusal / medians[TORCH]
    print(f"limits: {to_pydantic:.2f} of {PYDANTIC_LIMIT} x, {to_torch:.3f} of {TORCH_LIMIT} x")
    return int(to_pydantic > PYDANTIC_LIMIT or to_torch > TORCH_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
