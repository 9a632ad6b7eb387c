"""The files of a report at the process level: whole, whatever ends the boot, and nothing else."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.process import Finished, environment

# Runs the server with one of its functions replaced by `do`.
_SABOTAGED = """
import os, shutil, signal, sys
import server.gate, server.pairing
from server.__main__ import main
real = server.pairing.read_target_config
{do}
sys.exit(main())
"""
CRASH = "def do(*_): raise KeyError('surprise')\nserver.gate.read_draft_config = do"
SIGNAL = (
    "def do(*_):\n    os.kill(os.getpid(), signal.SIGTERM)\n    signal.pause()\n"
    "server.gate.read_draft_config = do"
)
VANISH = (
    "def do(*known):\n    shutil.rmtree('out')\n    return real(*known)\n"
    "server.pairing.read_target_config = do"
)
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))"

ACCEPTED = ("--target", "sample:qwen3", "--draft", "sample:dflash", "--check")
REFUSED = ("--target", "x", "--draft", "sample:dspine")
MISUSED = ("--target", "x", "--bogus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the samples, so that a boot writes nothing but its report."""
    made = tmp_path_factory.mktemp("cache")
    assert boot(*ACCEPTED, cwd=made, cache=made).code == 0
    return made


def boot(*arguments: str, cwd: Path, cache: Path, do: str = "") -> Finished:
    done = subprocess.run(
        [sys.executable, "-c", _SABOTAGED.format(do=do), *arguments],
        env=environment(cache),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "do", "code", "verdict"),
    [
        (ACCEPTED, "", 0, "accept"),
        (REFUSED, "", 78, "refuse"),
        (MISUSED, "", 2, "error"),
        (ACCEPTED, CRASH, 70, "error"),
        (ACCEPTED, SIGNAL, 143, "error"),
    ],
    ids=["accepted", "refused", "misused", "crash", "signal"],
)
def test_both_files_are_whole_however_the_boot_ends(
    tmp_path: Path, cache: Path, arguments: tuple[str, ...], do: str, code: int, verdict: str
) -> None:
    files = ("--report-file", "report.json", "--junit-file", "junit.xml")
    done = boot(*arguments, *files, cwd=tmp_path, cache=cache, do=do)
    assert done.code == code, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["exit_code"]) == (verdict, code)
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (int(suite.attrib["failures"]) + int(suite.attrib["errors"]) > 0) is (code > 0)
    assert names(tmp_path) == ["junit.xml", "report.json"]


@pytest.mark.parametrize("flag", ["--report-file", "--junit-file"])
@pytest.mark.parametrize(
    ("path", "do"),
    [
        ("/dev/full", ""),
        ("/proc/report", ""),
        ("out", ""),
        ("missing/report", ""),
        ("pipe", ""),
        ("out/report", VANISH),
        ("old", FULL),
    ],
    ids=["full device", "/proc", "folder", "missing", "pipe", "vanished", "full disk"],
)
def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(
    tmp_path: Path, cache: Path, flag: str, path: str, do: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "old").write_text("old")
    os.mkfifo(tmp_path / "pipe")
    done = boot(*ACCEPTED, flag, path, cwd=tmp_path, cache=cache, do=do)
    assert done.code == 66, done.stderr
    (told,) = done.error_lines
    assert told.startswith("error[SD707]")
    assert path in told
    assert names(tmp_path) == ["old", *([] if do == VANISH else ["out"]), "pipe"]
    assert (tmp_path / "old").read_text() == "old"


def test_a_refusal_keeps_its_exit_code_when_the_file_cannot_be_written(
    tmp_path: Path, cache: Path
) -> None:
    done = boot(*REFUSED, "--report-file", "/dev/full", cwd=tmp_path, cache=cache)
    assert done.code == 78
    assert done.error_lines[0].startswith("error[SD306]")
    assert done.error_lines[-1].startswith("error[SD707]")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write in every folder")
def test_a_folder_that_is_read_only_is_told(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o555)
    done = boot(*ACCEPTED, "--report-file", "out/report", cwd=tmp_path, cache=cache)
    assert done.code == 66
    assert "Permission denied" in done.error_lines[0]
    assert names(tmp_path) == ["out"]


def test_the_report_tells_that_the_other_file_could_not_be_written(
    tmp_path: Path, cache: Path
) -> None:
    files = ("--junit-file", "/dev/full", "--report-file", "report.json")
    done = boot(*ACCEPTED, *files, cwd=tmp_path, cache=cache)
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.code == report["exit_code"] == 66
    assert [found["rule"] for found in report["diagnostics"]] == ["SD707"]


def test_a_pipe_that_is_read_gets_the_whole_report(tmp_path: Path, cache: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Both ends are open before anything is read: neither side waits for the other.
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(tmp_path / "pipe", os.O_WRONLY)
    os.set_blocking(pipe, True)
    read: list[str] = []

    def drain() -> None:
        with os.fdopen(pipe) as stream:
            read.append(stream.read())

    reader = threading.Thread(target=drain)
    reader.start()
    done = boot(*ACCEPTED, "--report-file", "pipe", cwd=tmp_path, cache=cache)
    os.close(held)
    reader.join(timeout=60)
    assert done.code == 0, done.stderr
    assert json.loads(read[0])["verdict"] == "accept"
