"""A very low limit on open files: one clear line and exit 69, whatever met the limit first."""

import errno
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from server.limits import limit_met
from tests.process import ROOT, Finished, environment, run

BOOT = (
    *("--target", "sample:qwen3", "--draft", "sample:dflash", "--device", "cpu"),
    *("--max-num-batched-tokens", "16", "--max-num-seqs", "1", "--max-model-len", "64"),
)
ONCE = (*BOOT, "--exit-after-boot")


def limited(cache: Path, files: int, *flags: str, code: str = "") -> Finished:
    """The server, or Python `code`, with no more than `files` open files from its start."""
    limit: Callable[[], None] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # noqa: E731
    command = ["-c", code] if code else ["-m", "server", *flags]
    done = subprocess.run(
        [sys.executable, *command], env=environment(cache), cwd=cache, capture_output=True,
        text=True, timeout=240, check=False, preexec_fn=limit,
    )  # fmt: skip
    return Finished(done.returncode, done.stdout, done.stderr)


def needed(cache: Path) -> int:
    """Files that Python itself needs open at once before it runs a line of this server."""
    return next(n for n in range(3, 64) if not limited(cache, n, code="import server").code)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    assert run(*BOOT[:4], "--check", cache=folder).code == 0  # the samples are written
    return folder


FILES, THREADS = "no more files can be opened", "no more threads can be started"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files", "x"), FILES),
        (OSError(errno.ENFILE, "Too many open files in system"), FILES),
        (ImportError("libc10.so: cannot open shared object file: Too many open files"), FILES),
        (RuntimeError("can't start new thread"), THREADS),
        (FileNotFoundError(errno.ENOENT, "No such file", "/models/Too many open files"), ""),
        (ImportError("No module named 'torch'"), ""),
    ],
)
def test_a_limit_is_told_from_another_fault(error: Exception, told: str) -> None:
    assert limit_met(error) == told
    outer = RuntimeError("it failed")
    outer.__cause__ = error
    assert limit_met(outer) == told


@pytest.mark.parametrize("more", range(7))
def test_too_few_open_files_are_told_as_that(cache: Path, more: int) -> None:
    done = limited(cache, needed(cache) + more, *ONCE)
    assert "Traceback" not in done.stderr
    assert done.code in (0, 69), done.stderr
    if done.code:
        assert "error[SD613] process-limit: no more files can be opened" in done.stderr
        assert len(done.error_lines) == 1
        assert done.verdict_line.endswith("exit 69")


@pytest.mark.parametrize("flags", [("--help",), ("--check", *BOOT[:2]), ("--target", "nothing")])
def test_what_needs_few_files_ends_clearly_too(cache: Path, flags: tuple[str, ...]) -> None:
    done = limited(cache, needed(cache), *flags)
    assert "Traceback" not in done.stderr
    assert done.code in (0, 66, 69)
    assert ("error[SD613]" in done.stderr) == (done.code == 69)


def test_a_file_that_python_cannot_open_before_anything_is_ours_is_one_line(cache: Path) -> None:
    """The first import of the server fails, as where `site` leaves no file to spare."""
    code = (
        "import errno, runpy, sys\n"
        "class Full:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'server.process':\n"
        "            raise OSError(errno.EMFILE, 'Too many open files')\n"
        "sys.meta_path.insert(0, Full())\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "runpy.run_module('server', run_name='__main__', alter_sys=True)\n"
    )
    done = limited(cache, 64, code=code)
    assert done.code == 69
    assert done.stderr.splitlines() == [
        "error[SD613] process-limit: no more files can be opened; fix: raise that limit "
        "(ulimit -n)",
        "refused: 1 error; exit 69",
    ]


def test_a_server_that_is_held_needs_no_more_files(cache: Path) -> None:
    """Whatever it is ready with, it can wait for a signal with."""
    for files in range(needed(cache) + 5, 64):
        if limited(cache, files, *ONCE).code == 0:
            break
    limit: Callable[[], None] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # noqa: E731
    with subprocess.Popen(
        [sys.executable, "-m", "server", *BOOT], env=environment(cache), cwd=cache,
        stderr=subprocess.PIPE, text=True, preexec_fn=limit,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith(("ready:", "Traceback", "refused:")):
                break
        process.terminate()
        seen.append(process.stderr.read())
    told = "".join(seen)
    assert "Traceback" not in told
    assert process.returncode in (0, 69), told
