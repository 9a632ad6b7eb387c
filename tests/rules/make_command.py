"""Command lines and variables, as an operator types them."""

import shlex
from pathlib import Path
from typing import NamedTuple

from server.cli import parse
from server.findings import Outcome


class Typed(NamedTuple):
    """Flags behind `--target Qwen3-8B`, and variables with their values."""

    flags: str = ""
    variable: str = ""

    @property
    def told(self) -> str:
        words = [self.variable, "python -m server --target Qwen3-8B", self.flags]
        return f"`{' '.join(filter(None, words))}`"

    def judge(self, _folder: Path) -> Outcome:
        environ = dict(word.split("=", 1) for word in self.variable.split())
        return parse(["--target", "Qwen3-8B", *shlex.split(self.flags)], environ).outcome
