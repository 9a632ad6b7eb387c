"""Output that is closed, full, missing or of another encoding never changes the exit code."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from server.findings import ExitCode, Finding, Severity
from server.render.console import Console
from server.render.style import ENDLESS, Style, style_of, wants_color

ROOT = Path(__file__).resolve().parent.parent.parent


def make_finding(severity: Severity) -> Finding:
    return Finding("SD604", "unknown", severity, "message", (), "", "", "", ExitCode.CONFIG)


@pytest.mark.parametrize(("verbose", "printed"), [(False, 2), (True, 3)])
def test_notes_are_printed_only_when_asked_for(verbose: bool, printed: int) -> None:
    stream = io.StringIO()
    console = Console(stream, Style(verbose=verbose))
    for severity in Severity:
        console.finding(make_finding(severity))
    assert len(stream.getvalue().splitlines()) == printed


def test_an_empty_text_prints_nothing() -> None:
    stream = io.StringIO()
    Console(stream, Style()).line("")
    assert stream.getvalue() == ""


def test_a_missing_stream_drops_everything() -> None:
    console = Console(None, Style())
    console.line("text")
    assert console.stream is None


def test_a_closed_stream_is_given_up() -> None:
    stream = io.StringIO()
    console = Console(stream, Style())
    stream.close()
    console.line("text")
    console.line("more")
    assert console.stream is None


@pytest.mark.parametrize(
    ("encoding", "text"), [("ascii", "mod\\xe8le \\u6a21"), ("latin-1", "modèle \\u6a21")]
)
def test_what_cannot_be_encoded_is_escaped(encoding: str, text: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(stream, Style())
    console.line("modèle \u6a21")
    assert raw.getvalue().decode(encoding) == f"{text}\n"
    assert console.stream is not None


def test_lone_surrogates_do_not_reach_the_encoder() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    Console(stream, Style()).line("\udc80")
    assert raw.getvalue() == b"\\udc80\n"


SPEAK = """
import sys
from server.render.console import Console
from server.render.style import style_of
console = Console(sys.{stream}, style_of(sys.{stream}, {{}}))
for _ in range(3):
    console.line("short, so that it waits in the buffer")
sys.exit(78)
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("to", ["closed pipe", "full device", "nothing"])
def test_a_broken_stream_keeps_the_exit_code(stream: str, to: str) -> None:
    script = f"exec {sys.executable} -c '{SPEAK.format(stream=stream)}'"
    number = {"stdout": 1, "stderr": 2}[stream]
    end = {"closed pipe": "", "full device": f"{number}>/dev/full", "nothing": f"{number}>&-"}[to]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{script} {end}"],
            stdout=writer if stream == "stdout" else subprocess.PIPE,
            stderr=writer if stream == "stderr" else subprocess.PIPE,
            cwd=ROOT,
            # Unbuffered, the flush at exit that this is about has nothing to do.
            env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 78
    assert not done.stdout
    assert not done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "flag", "wanted"),
    [
        (Terminal(), {}, "auto", True),
        (io.StringIO(), {}, "auto", False),
        (None, {}, "auto", False),
        (Terminal(), {"TERM": "dumb"}, "auto", False),
        (Terminal(), {"NO_COLOR": "1"}, "auto", False),
        (Terminal(), {"NO_COLOR": ""}, "auto", True),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, "auto", True),
        (io.StringIO(), {"FORCE_COLOR": "0"}, "auto", False),
        (io.StringIO(), {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, "auto", True),
        (io.StringIO(), {"NO_COLOR": "1"}, "always", True),
        (Terminal(), {"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_the_order_of_colour_settings(
    stream: TextIO | None, environ: dict[str, str], flag: str, wanted: bool
) -> None:
    assert wants_color(stream, environ, flag) is wanted


def test_a_style_for_no_terminal_has_the_usual_widths() -> None:
    style = style_of(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), {})
    assert (style.width, style.bar_width, style.blocks) == (ENDLESS, 80, False)
    wide = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert style_of(wide, {}).blocks
    assert not style_of(wide, {}, "never").blocks
    assert not style_of(wide, {"TERM": "dumb"}).blocks
    assert style_of(None, {}) == Style(width=ENDLESS)


def test_a_narrow_terminal_narrows_text_and_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 99)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((72, 20)))
    style = style_of(stream, {})
    assert (style.width, style.bar_width) == (72, 70)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 20)))
    assert style_of(stream, {}).bar_width == 38
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((39, 20)))
    assert style_of(stream, {}).bar_width == 0
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    assert style_of(stream, {}).bar_width == 80
