"""What stands in the files of an example: each content writes itself and tells itself.

A page shows what `told` says, so that a run and its description are of the same data.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.config.drafts import GONE, Raw, make


class Content(Protocol):
    """One file of an example."""

    @property
    def told(self) -> str:
        """The content in words, as Markdown without a line break."""

    def write(self, path: Path) -> None:
        """Make the file at `path`; its folder is there."""


class Base(NamedTuple):
    """A config.json that is accepted, or refused for its family alone. README.md shows it."""

    id: str
    title: str
    raw: Raw

    @property
    def told(self) -> str:
        return f"[{self.id}](README.md#{self.id})"

    @property
    def text(self) -> str:
        return json_text(self.raw) + "\n"

    def write(self, path: Path) -> None:
        path.write_text(self.text)


class Edited(NamedTuple):
    """A base with values changed; a path such as dflash_config/block_size names each place."""

    base: Base
    edits: Raw

    @property
    def told(self) -> str:
        changes = [_change(self.base.raw, path, value) for path, value in self.edits.items()]
        return f"{self.base.told} with {', '.join(changes)}"

    def write(self, path: Path) -> None:
        path.write_text(json_text(make(self.base.raw, self.edits)) + "\n")


class Spliced(NamedTuple):
    """The text of a base with one part of it replaced, for files that no JSON writer makes."""

    base: Base
    old: str
    new: str

    @property
    def told(self) -> str:
        old, new = (text if text.isprintable() else json.dumps(text) for text in self[1:])
        return f"{self.base.told} with the text `{old}` replaced by `{new}`"

    def write(self, path: Path) -> None:
        assert self.base.text.count(self.old) == 1, f"{self.old!r} names no one place"
        path.write_text(self.base.text.replace(self.old, self.new))


class Text(NamedTuple):
    """A short text, such as the commit in a reference of the model cache."""

    text: str

    @property
    def told(self) -> str:
        return f"the text `{self.text}`"

    def write(self, path: Path) -> None:
        path.write_text(self.text)


class Fifo(NamedTuple):
    """A FIFO, from which a reader would wait for ever."""

    @property
    def told(self) -> str:
        return "a FIFO"

    def write(self, path: Path) -> None:
        os.mkfifo(path)


def json_text(value: object, indent: str = "") -> str:
    """JSON with one line for each key and none for the items of a list."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value)
    inner = f"{indent}  "
    lines = (f"{inner}{json.dumps(key)}: {json_text(item, inner)}" for key, item in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _change(raw: Raw, path: str, value: Any) -> str:  # noqa: ANN401
    """One edit in words; where the base has the key, with what it has."""
    *parents, key = path.split("/")
    level: Any = raw
    for parent in parents:
        level = level[parent]
    name = ".".join((*parents, key))
    if value is GONE:
        return f"`{name}` removed"
    told = f"`{name}` = `{json.dumps(value)}`"
    if key not in level:
        return f"{told} added"
    # An object that is replaced as a whole can be read in README.md.
    was = "an object" if isinstance(level[key], Mapping) else f"`{json.dumps(level[key])}`"
    return f"{told} instead of {was}"
