"""Real configuration files, for the tests that want them. They are not part of this repository.

Set DRAFTGATE_CONFIGS to a folder of them, or put it beside the checkout.
"""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2] / "shared" / "configs"


def folder_of_real_files() -> Path:
    """Where the real files are looked for; the folder need not be there."""
    return Path(os.environ.get("DRAFTGATE_CONFIGS") or _BESIDE)


def corpus_root() -> Path:
    """The folder of real files; skips the test when there is none."""
    root = folder_of_real_files()
    if not root.is_dir():
        pytest.skip(f"no real configuration files at {root} (set DRAFTGATE_CONFIGS)")
    return root


def corpus_file(relative: str) -> Path:
    """One real file, such as "dflash_nested/x.json"; skips the test when it is not there."""
    path = corpus_root() / relative
    if not path.is_file():
        pytest.skip(f"no real configuration file at {path}")
    return path


def corpus_files(folder: str) -> list[Path]:
    """All real files of one folder; skips the test when there are none."""
    found = sorted((corpus_root() / folder).glob("*.json"))
    if not found:
        pytest.skip(f"no real configuration files in {folder}")
    return found
