"""Judges inputs from files, one after the other, with every check on."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.faults import cause
from tests.fuzz.judge import Harness
from tests.fuzz.seeds import fixed_target


def main(paths: list[str]) -> int:
    """One line for each file; 1 when one of them is a fault."""
    code = 0
    with TemporaryDirectory() as folder:
        harness = Harness(Path(folder), fixed_target(), thorough=True)
        for path in paths:
            data = Path(path).read_bytes()
            try:
                found = harness.run(data)
                told = f"{found.family} {found.verdict} in {found.spent_s * 1000:.1f} ms"
            except Exception as error:  # whatever the gate lets out is the finding
                told, code = f"FAULT {cause(error)}", 1
            sys.stdout.write(f"{path}: {told}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
