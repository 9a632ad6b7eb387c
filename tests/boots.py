"""Boots inside the test process: a log that collects, and options for the samples."""

import io
from pathlib import Path
from typing import Any

from server.cli import parse
from server.log import Log
from server.options import Options
from server.render.console import Console
from server.render.style import Style
from server.report import Report


def make_log(options: Options | None = None) -> Log:
    settings = {}
    if options is not None:
        settings = dict(parse(["--target", options.target, "--dtype", options.dtype], {}).settings)
    return Log(Report(settings=settings), Console(io.StringIO(), Style()))


def said(log: Log) -> str:
    stream = log.console.stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def rules(log: Log) -> list[str]:
    return [finding.rule for finding in log.report.findings]


def make_options(target: str | Path, draft: str | Path | None = None, **others: Any) -> Options:  # noqa: ANN401
    return Options(target=str(target), draft=None if draft is None else str(draft), **others)
