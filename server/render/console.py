"""Writes lines to a stream that may be closed, full, missing or unable to encode them."""

import os
from typing import TextIO

from server.findings import Finding, Severity
from server.render.style import Style
from server.render.text import render_finding
from server.report import Report


class Console:
    """Lines to one stream. A stream that fails is given up in silence: the exit code tells.

    `lost` says why, except for a reader that went away: that was the reader's choice.
    """

    def __init__(self, stream: TextIO | None, style: Style) -> None:
        """Write to `stream`; None (a process started with it closed) drops everything."""
        self.style = style
        self.lost: str | None = None
        self._stream = stream

    @property
    def stream(self) -> TextIO | None:
        """The stream itself, for a progress bar; None when nothing can be written."""
        return self._stream

    def finding(self, finding: Finding) -> None:
        """Print one finding; a note only when notes are asked for."""
        if finding.severity is not Severity.NOTE or self.style.verbose:
            self.line(render_finding(finding, self.style))

    def line(self, text: str) -> None:
        """Print `text` and a newline, and flush. Nothing is printed for an empty text."""
        if self._stream is None or not text:
            return
        try:
            self._stream.write(_encodable(text, self._stream) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            if not isinstance(error, BrokenPipeError):
                self.lost = str(error)
            _silence(self._stream)
            self._stream = None


class Output:
    """A format that is told while the boot runs. This one says nothing: text is the console's.

    `console` is where a format writes; its `lost` says what became of it.
    """

    def __init__(self, console: Console) -> None:
        """Tell everything to `console`."""
        self.console = console

    def phase_begins(self, name: str) -> None:
        """A phase begins."""

    def phase_ends(self, name: str, ms: float) -> None:
        """A phase has ended, `ms` milliseconds after it began."""

    def finding(self, finding: Finding) -> None:
        """Something was found."""

    def verdict(self, report: Report) -> None:
        """The boot is judged; nothing is told after this."""


SILENT = Output(Console(None, Style()))


def _encodable(text: str, stream: TextIO) -> str:
    """`text` with each character that the stream cannot encode as an escape."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")


def _silence(stream: TextIO) -> None:
    """Point a failed standard stream at the null device.

    Else the interpreter flushes it once more at exit, fails, and exits with 120.
    """
    try:
        number = stream.fileno()
        if number in (1, 2):
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, number)
            os.close(sink)
    except (OSError, ValueError):
        return
