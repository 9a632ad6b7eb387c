"""An empty cache, and places that lead to it and to no other."""

from pathlib import Path

import pytest

from server.config.locate import Places
from tests.config.checkpoints import make_folder


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "hf" / "hub")


@pytest.fixture
def places(tmp_path: Path, hub: Path) -> Places:
    return Places(environ={"HF_HOME": str(hub.parent), "HOME": str(tmp_path / "home")})
