"""Every fault in turn: fault, exit code, headline, time. Exits 1 when one is not as it must be.

The time is that of the whole boot; from the moment of the fault, where it comes during the boot.

python -m tests.faults [--only WORD]
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.faults.fault import Unavailable
from tests.faults.judge import FAULTS, wrong_with
from tests.faults.place import run_in, writable_again


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--only", default="", help="faults whose name holds this")
    asked = parser.parse_args()
    wrong, count = [], 0
    say = partial(print, flush=True, file=sys.stdout)
    say("| fault | exit code | headline | s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, fault in enumerate(FAULTS):
            if asked.only not in fault.name:
                continue
            root = Path(folder) / str(number)
            root.mkdir()
            with writable_again(root):
                try:
                    came = run_in(root, fault.prepare, Path(folder))
                except Unavailable as reason:
                    say(f"| {fault.name} | | not made here: {reason} | |")
                    continue
            count += 1
            headline = came.headline.replace("|", "\\|").replace(folder, "")[:150]
            say(f"| {fault.name} | {came.code} | {headline} | {came.seconds:.2f} |")
            wrong += [f"{fault.name}: {what}" for what in wrong_with(fault, came)]
    say(f"\n{count} faults, {len(wrong)} not as they must be", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
