"""Where this server may write: samples and crash reports. Standard library only."""

import os
from collections.abc import Mapping
from pathlib import Path

_APP = "draftgate"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """SERVER_CACHE_DIR, or a folder of this server in the user's cache. Nothing is created.

    The user's cache is XDG_CACHE_HOME or ~/.cache
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    if own := environ.get("SERVER_CACHE_DIR"):
        return Path(own)
    if (xdg := Path(environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return xdg / _APP
    return Path(environ.get("HOME") or os.path.expanduser("~")) / ".cache" / _APP
