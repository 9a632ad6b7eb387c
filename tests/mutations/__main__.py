"""Prints the table of fields and mutations; exits with 1 when one passes in silence."""

import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.mutations.cases import FOLDERS
from tests.mutations.table import judge_fixtures, judge_real, markdown, totals, unused


def main() -> int:
    """The tables of the fixtures, and with --real FOLDER those of real files."""
    parser = ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--real", type=Path, help="a folder of real configuration files")
    parser.add_argument("--totals", action="store_true", help="leave out the tables")
    options = parser.parse_args()
    fixtures = judge_fixtures()
    judged = list(fixtures)
    for folder in FOLDERS if options.real else ():
        judged += judge_real(options.real, folder)
    if not options.totals:
        sys.stdout.write("".join(f"{markdown(of)}\n\n" for of in judged))
    sys.stdout.write(f"## Totals\n\n{totals(judged)}\n")
    faults = [fault for of in judged for fault in of.faults()]
    faults += [f"never needed: {', '.join(key)}" for key in unused(fixtures)]
    sys.stderr.write("".join(f"{fault}\n" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
