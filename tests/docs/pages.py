"""What the pages hold: fenced blocks, the commands in them and in the text, and links.

A block of `sh` holds commands, one a line. Each exits with 0 unless a comment behind it says
`# exits 78`; a command in the text exits with 0 unless the words behind it say "exits with 78".
A block of `text` or `json` that follows a command is what that command prints.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# The pages of docs/rules are made and run by tests/rules.
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
OUTPUT = ("text", "json")
LANGUAGES = ("sh", *OUTPUT, "python")
ELISION = "..."

_FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.M | re.S)
_INLINE = re.compile(r"`((?:\w+=\S+ )*(?:python -m|draftgate) [^`]+)`(?: exits with (\d+))?")
_EXITS = re.compile(r"^(.*?)(?:\s+#(?: exits (\d+))?.*)?$")


class Block(NamedTuple):
    """One fenced block; `start` is its place in the page's text."""

    language: str
    text: str
    start: int


class Command(NamedTuple):
    """One command as a page has it, and the exit code that the page states."""

    page: Path
    line: int
    text: str
    code: int

    @property
    def id(self) -> str:
        return f"{self.page.name}:{self.line}"


class Output(NamedTuple):
    """What a page says that a command prints."""

    command: Command
    block: Block


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page's text."""
    return [Block(found[1], found[2], found.start()) for found in _FENCE.finditer(text)]


def without_blocks(text: str) -> str:
    """The text with its fenced blocks blank, at the same places."""
    return _FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def commands(page: Path) -> list[Command]:
    """Every command of a page, in the order of the page."""
    text = page.read_text()
    found = [*_in_blocks(text), *_in_text(text)]
    return [
        Command(page, text.count("\n", 0, start) + 1, words, code)
        for start, words, code in sorted(found)
    ]


def outputs(page: Path) -> list[Output]:
    """Every block of output of a page, with the command before it."""
    text, found = page.read_text(), commands(page)
    shown = []
    for block in blocks(text):
        before = [c for c in found if c.line <= text.count("\n", 0, block.start)]
        if block.language in OUTPUT:
            assert before, f"{page.name}: output without a command before it"
            shown.append(Output(before[-1], block))
    return shown


def _in_blocks(text: str) -> Iterator[tuple[int, str, int]]:
    for block in blocks(text):
        if block.language != "sh":
            continue
        place = text.index("\n", block.start) + 1
        for line in block.text.replace("\\\n", "  ").splitlines(keepends=True):
            found = _EXITS.match(line.strip())
            if found and found[1]:
                yield place, " ".join(found[1].split()), int(found[2] or 0)
            place += len(line)


def _in_text(text: str) -> Iterator[tuple[int, str, int]]:
    for found in _INLINE.finditer(without_blocks(text)):
        yield found.start(), " ".join(found[1].split()), int(found[2] or 0)
