"""A boot of the whole server inside the test process, over a checkpoint with edits."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from server.cli import Parsed, parse
from server.findings import Outcome
from server.log import Log, Refused
from server.render.console import Console
from server.render.style import Style
from server.report import NOT_LOADED, NOT_TOUCHED, Report
from server.startup import boot
from tests.rules.make_checkpoint import NAME, Edit, write_checkpoint

_COMMAND = "python -m server --target"


class _Left(Exception):
    """The boot has come as far as the example wants it."""


class _StagedLog(Log):
    """A log that edits a checkpoint when phase `only` begins, and leaves the boot when it ends."""

    def __init__(self, parsed: Parsed, only: str = "") -> None:
        report = Report(settings=dict(parsed.settings), not_done=[NOT_LOADED, NOT_TOUCHED])
        super().__init__(report, Console(io.StringIO(), Style()))
        self.only, self.first = only, 0
        self.edits: Callable[[], None] = lambda: None

    @contextmanager
    def phase(self, name: str, *, announce: bool = False) -> Iterator[None]:
        if name == self.only:
            self.first = len(self.report.findings)
            self.edits()
        with super().phase(name, announce=announce):
            yield
        if name == self.only:
            raise _Left


class Cache(NamedTuple):
    """A sample that is to be written below SERVER_CACHE_DIR, which is a "file" or a "folder"."""

    kind: str

    @property
    def told(self) -> str:
        command = f"SERVER_CACHE_DIR=cache {_COMMAND} sample:qwen3 --check"
        return f"`{command}`, where `cache` is a {self.kind}."

    def judge(self, folder: Path) -> Outcome:
        cache = folder / "cache"
        cache.mkdir() if self.kind == "folder" else cache.touch()
        # The boot reads it where it needs it, as every library does with such a variable.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SERVER_CACHE_DIR", str(cache))
            parsed = parse(["--target", "sample:qwen3", "--check"], {})
            return _boot(parsed, _StagedLog(parsed))


class Boot(NamedTuple):
    """A Qwen3 checkpoint with `edits`, booted with `flags`.

    With `phase` only that phase's findings are given, since others depend on the machine. When it
    begins, `late` edits happen.
    """

    edits: tuple[Edit, ...]
    flags: str = "--check"
    sharded: bool = False
    phase: str = ""
    late: tuple[Edit, ...] = ()

    @property
    def told(self) -> str:
        form = "in two shards with an index" if self.sharded else "in one file"
        command = f"`{_COMMAND} ./{NAME} {self.flags}`"
        edits = [edit.told for edit in self.edits]
        edits += [f"after the headers were read, {edit.told}" for edit in self.late]
        listed = "".join(f"\n- {edit}" for edit in edits)
        where = f"{command}, where `{NAME}` is a small Qwen3 checkpoint {form}"
        return f"{where}:\n{listed}" if edits else f"{where}."

    def judge(self, folder: Path) -> Outcome:
        target = folder / NAME
        write_checkpoint(target, self.sharded)
        _make(self.edits, target)
        parsed = parse(["--target", str(target), *self._flags(folder)], {})
        log = _StagedLog(parsed, self.phase)
        log.edits = lambda: _make(self.late, target)
        return _boot(parsed, log)

    def _flags(self, folder: Path) -> Iterator[str]:
        """The flags, each relative path among them below `folder`."""
        for word in self.flags.split():
            yield str(folder / word) if "/" in word else word


def _make(edits: Iterable[Edit], folder: Path) -> None:
    for edit in edits:
        edit.make(folder)


def _boot(parsed: Parsed, log: _StagedLog) -> Outcome:
    assert parsed.options is not None, parsed.outcome
    with suppress(Refused, _Left):
        boot(parsed.options, log)
    report = log.report
    return Outcome(tuple(report.findings[log.first :]), tuple(report.checks.values()))
