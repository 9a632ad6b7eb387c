"""The files of an input."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from server.cli import parse
from server.report import SettingFacts

_SPARSE_LIMIT_BYTES = 2**45


class Files:
    """One folder, and what an input puts there. A file is written only when it changes."""

    def __init__(self, folder: Path) -> None:
        """`folder` exists; the files of an input are below it."""
        self._folder = folder
        self._held: dict[str, bytes] = {}
        self.at("draft").mkdir(exist_ok=True)
        settings: Mapping[str, SettingFacts] = parse(["--target", "target"], {}).settings
        self.settings = dict(settings)

    def at(self, name: str) -> Path:
        """The path of a file."""
        return self._folder / name

    def write(self, name: str, data: bytes) -> Path:
        """Write a file; returns its path."""
        path = self.at(name)
        if self._held.get(name) != data:
            path.write_bytes(data)
            self._held[name] = data
        return path

    def put(self, name: str, data: bytes) -> None:
        """Write a file, or remove it when there is no data for it."""
        if data:
            self.write(name, data)
        elif self._held.pop(name, None) is not None:
            with suppress(FileNotFoundError):
                self.at(name).unlink()

    def put_weights(self, name: str, data: bytes) -> None:
        """The same for a weight file; the text of a header is made a whole, sparse file."""
        if not data.startswith(b"{") or self._held.get(name) == data:
            self.put(name, data)
            return
        with self.at(name).open("wb") as file:
            file.write(len(data).to_bytes(8, "little") + data)
            with suppress(OSError):  # a size that this file system does not take
                file.truncate(8 + len(data) + _data_bytes(data))
        self._held[name] = data


def _data_bytes(header: bytes) -> int:
    """The highest end among the tensors' offsets; 0 where the header does not say."""
    try:
        tensors = json.loads(header).values()
        ends = [tensor["data_offsets"][1] for tensor in tensors if "data_offsets" in tensor]
        end = max(end for end in ends if isinstance(end, int))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return 0
    return end if 0 <= end < _SPARSE_LIMIT_BYTES else 0
