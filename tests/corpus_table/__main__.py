"""`python -m tests.corpus_table [FOLDER]`: prints the table, exits 1 when anything is wrong."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import folder_of_real_files
from tests.corpus_table.render import render
from tests.corpus_table.run import Boot, real_boot
from tests.corpus_table.table import build


def main(argv: Sequence[str], boot: Boot = real_boot) -> int:
    """0: all as expected; 1: a fault; 2: there is no such folder, or no file in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus_table", allow_abbrev=False)
    parser.add_argument("folder", nargs="?", type=Path, default=folder_of_real_files())
    root = parser.parse_args(argv).folder.resolve()
    if not root.is_dir():
        parser.error(f"no folder at {root} (give one, or set DRAFTGATE_CONFIGS)")
    table = build(root, boot)
    if not table.files:
        parser.error(f"no folder in {root} holds a JSON file")
    sys.stdout.write(render(table) + "\n")
    return int(table.faulty)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
