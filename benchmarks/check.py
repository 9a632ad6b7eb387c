"""How long `--check` takes on a large target config, against the price of its own imports.

    python -m benchmarks.check [--rounds 15] [--config FILE]

Four whole processes, interleaved: a bare interpreter; one that imports argparse, json and
pydantic and validates one model; the check of a DSpark draft with a header of 64 tensors against
a target that is refused; the check of the same draft against the Qwen3-4B config, which is
accepted. The refused target is FILE, else the largest target of the real configs
(DRAFTGATE_CONFIGS, or the folder that lies beside the checkout), else a file of the same size
and shape: quantised, nested, with hundreds of names of modules. Prints medians and ratios, and
exits 1 when a check costs more than 1.6 times the pydantic process.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.check_files import write_draft, write_large_target, write_target
from benchmarks.processes import BARE, PYDANTIC, Commands, measure
from tests.corpus import folder_of_real_files

REFUSED, ACCEPTED = "check, refused", "check, accepted"
LIMIT = 1.6


def largest_target() -> Path | None:
    """The largest real target config; None where there are none."""
    found = (folder_of_real_files() / "target").glob("*.json")
    return max(found, key=lambda path: path.stat().st_size, default=None)


def commands(config: Path, work: Path) -> Commands:
    """The four processes, on files written to `work`."""
    check = [sys.executable, "-m", "server", "--check", "--draft", str(write_draft(work))]
    return BARE | {
        REFUSED: ([*check, "--target", str(config)], 78),
        ACCEPTED: ([*check, "--target", str(write_target(work))], 0),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--config", type=Path, help="config.json of a target that is refused")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        config = options.config or largest_target() or write_large_target(work)
        size_bytes = config.stat().st_size
        medians = measure(commands(config.resolve(), work), options.rounds, work)
    print(f"refused target: {config.name}, {size_bytes} bytes")
    bare = medians[PYDANTIC]
    for name, median in medians.items():
        print(f"{name:28} {median * 1000:8.1f} ms   {median / bare:6.2f} x pydantic")
    worst = max(medians[REFUSED], medians[ACCEPTED]) / bare
    print(f"limit: {worst:.2f} of {LIMIT} x")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
