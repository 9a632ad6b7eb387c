"""What the server prints to terminals, pipes, closed streams and other encodings."""

import json
import os
import pty
import re
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from tests.process import environment

REFUSED = ("--target", "x", "--draft", "sample:dspine")
ACCEPTED = ("--target", "sample:qwen3", "--check")
RUNS = [(REFUSED, 78), (ACCEPTED, 0)]
FORMATS = ("text", "json", "jsonl", "github", "junit")
WHY = (
    "why     DSpine adds a bridge of its own inside the draft; served as plain DFlash the bridge "
    "would be dropped without a word"
)
COMMAND = (sys.executable, "-m", "server")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def settings(cache: Path, **extra: str) -> dict[str, str]:
    dropped = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS", "PYTHONUNBUFFERED")
    kept = {k: v for k, v in environment(cache).items() if k not in dropped}
    return {**kept, "TERM": "xterm", **extra}


def on_terminal(cache: Path, columns: int, *arguments: str, **env: str) -> tuple[int, str]:
    """Exit code and text of a run whose standard error is a terminal of that width."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *REFUSED, *arguments], stderr=theirs, cwd=cache, env=settings(cache, **env)
    )
    os.close(theirs)
    told = b""
    try:
        while piece := os.read(ours, 65536):
            told += piece
    except OSError:  # how Linux tells that the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout=60), told.decode().replace("\r\n", "\n")


def piped(
    cache: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cache,
        env=settings(cache, **(env or {})),
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("columns", [52, 90, 150])
def test_text_is_wrapped_to_the_width_of_a_terminal(cache: Path, columns: int) -> None:
    code, told = on_terminal(cache, columns, "--color", "never")
    assert code == 78
    paragraph = re.search(r"  why     .*?(?=\n  fix )", told, re.DOTALL)
    assert paragraph is not None
    lines = paragraph.group().splitlines()
    assert max(map(len, lines)) <= columns
    assert " ".join(paragraph.group().split()) == " ".join(WHY.split())
    assert (len(lines) == 1) is (columns > len(WHY) + 2)


def test_text_is_not_wrapped_where_there_is_no_terminal(cache: Path) -> None:
    done = piped(cache, *REFUSED, env={"COLUMNS": "40"})
    assert f"  {WHY}" in done.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("arguments", "env", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {}, False),
        (("--color", "always"), {"NO_COLOR": "1", "TERM": "dumb"}, True),
        (("--concise",), {}, True),
        (("--concise",), {"NO_COLOR": "1"}, False),
    ],
)
def test_colour_on_a_terminal(
    cache: Path, arguments: Sequence[str], env: dict[str, str], coloured: bool
) -> None:
    code, told = on_terminal(cache, 80, *arguments, **env)
    assert code == 78
    assert ("\x1b[" in told) is coloured


@pytest.mark.parametrize("form", FORMATS)
def test_there_is_no_colour_in_a_pipe_unless_it_is_asked_for(cache: Path, form: str) -> None:
    arguments = (*REFUSED, "--output-format", form)
    plain = piped(cache, *arguments)
    assert b"\x1b" not in plain.stdout + plain.stderr
    asked = piped(cache, *arguments, "--color", "always")
    machines = form in ("json", "jsonl", "junit")
    assert (b"\x1b" in asked.stdout + asked.stderr) is not machines


@pytest.mark.parametrize(("arguments", "code"), RUNS, ids=["refused", "accepted"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_reader_that_takes_one_line_leaves_the_exit_code(
    cache: Path, arguments: Sequence[str], code: int, form: str
) -> None:
    """`| head -1`; text is on standard error, so both go into the pipe."""
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--output-format", form, "--verbose"],
        cwd=cache,
        env=settings(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    assert first.strip()
    assert b"Traceback" not in first
    assert process.wait(timeout=60) == code


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("form", ["text", "jsonl", "junit"])
def test_closed_streams_leave_the_exit_code(cache: Path, closed: str, form: str) -> None:
    for arguments, code in RUNS:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *arguments,
             "--output-format", form],
            cwd=cache, env=settings(cache), capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code
        assert b"Traceback" not in done.stdout + done.stderr
        told = done.stderr if form == "text" else done.stdout
        is_open = {"text": "2>&-" not in closed}.get(form, closed == "2>&-")
        assert bool(told) is is_open


_NUMBERS = """
import os, sys
from server.__main__ import main
code = main()
open("numbers", "w").write(" ".join(os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)))
sys.exit(code)
"""


def test_no_file_takes_the_number_of_a_closed_stream(cache: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", _NUMBERS, *REFUSED],
        cwd=tmp_path, env=settings(cache), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert (tmp_path / "numbers").read_text() == "/dev/null /dev/null /dev/null"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["LC_ALL", "PYTHONIOENCODING", "no UTF-8 at all"],
)
def test_other_encodings_keep_the_verdict_and_lose_nothing(
    cache: Path, tmp_path: Path, form: str, env: dict[str, str]
) -> None:
    folder = tmp_path / "mod\u00e8le \u6a21"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["\u6a21"]}', encoding="utf-8")
    done = piped(cache, "--target", str(folder), "--check", "--output-format", form, env=env)
    told = done.stdout + done.stderr
    assert done.returncode == 78, told
    assert b"Traceback" not in told
    assert b"SD310" in told
    if form == "json":
        assert json.loads(done.stdout)["exit_code"] == 78
    if env.keys() >= {"PYTHONIOENCODING"}:
        assert told.isascii()
