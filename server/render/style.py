"""How text is laid out and coloured for one stream. Colour never carries meaning alone."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple, TextIO

from server.findings import Severity

# Nothing is wrapped for a log or a pipe: its reader searches lines.
ENDLESS = sys.maxsize
_RESET = "\x1b[0m"
# A bar is indented by 2, and says nothing below 40 columns.
_INDENT, _NARROWEST = 2, 40
_CODES: Mapping[str, str] = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
    "good": "\x1b[1;32m",
    "label": "\x1b[2m",
}
_BAR = ("\x1b[34m", "\x1b[36m", "\x1b[35m", "\x1b[33m", "\x1b[32m", "\x1b[31m")


class Style(NamedTuple):
    """Layout of one stream. Widths are in columns; `blocks` allows Unicode block characters.

    Lines are wrapped at `width`: a terminal's own, or ENDLESS where there is none.
    `bar_width` is 0 where the terminal is too narrow for a bar.
    """

    color: bool = False
    verbose: bool = False
    width: int = 100
    bar_width: int = 80
    blocks: bool = False

    def paint(self, text: str, role: str) -> str:
        """`text` in the colour of a role: error, warning, note, good or label."""
        return f"{_CODES[role]}{text}{_RESET}" if self.color and text else text

    def paint_severity(self, text: str, severity: Severity) -> str:
        """`text` in the colour of a severity."""
        return self.paint(text, severity.value)

    def paint_segment(self, text: str, index: int) -> str:
        """`text` in the colour of the bar's segment number `index`."""
        return f"{_BAR[index % len(_BAR)]}{text}{_RESET}" if self.color and text else text


def style_of(
    stream: TextIO | None, environ: Mapping[str, str], color: str = "auto", verbose: bool = False
) -> Style:
    """The style for one stream; `color` is auto, always or never."""
    columns = _columns(stream)
    return Style(
        color=wants_color(stream, environ, color),
        verbose=verbose,
        width=max(columns or ENDLESS, 40),
        bar_width=_bar_width(columns),
        blocks=color != "never"
        and environ.get("TERM") != "dumb"
        and _can_encode(stream, "\u2588\u2593\u2592\u2591"),
    )


def _bar_width(columns: int | None) -> int:
    """The terminal's width less the indent of the bar; 80 where there is no terminal."""
    if columns is None:
        return 80
    return columns - _INDENT if columns >= _NARROWEST else 0


def wants_color(stream: TextIO | None, environ: Mapping[str, str], color: str) -> bool:
    """The --color flag, then NO_COLOR, then FORCE_COLOR or CLICOLOR_FORCE, then the terminal."""
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """True for an open terminal."""
    try:
        return stream is not None and stream.isatty()
    except (ValueError, OSError):
        return False


def _columns(stream: TextIO | None) -> int | None:
    """The width of the terminal, or None where there is none."""
    if stream is None or not is_terminal(stream):
        return None
    try:
        # Some terminals report 0 columns: that is "unknown".
        return os.get_terminal_size(stream.fileno()).columns or None
    except (ValueError, OSError):
        return None


def _can_encode(stream: TextIO | None, text: str) -> bool:
    """True when the stream's encoding has every character of `text`."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True
