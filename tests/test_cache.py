"""The folder that this server writes to follows the environment."""

from pathlib import Path

import pytest

from server.cache import cache_folder


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SERVER_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"SERVER_CACHE_DIR": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/draftgate"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, "/c/.cache/draftgate"),
        ({"HOME": "/c"}, "/c/.cache/draftgate"),
    ],
)
def test_cache_folder(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)
