"""A second instance on a device hears of the first, and nobody of one that is gone."""

import json
import os
import subprocess
import sys
from pathlib import Path

from server.live.neighbours import Instance, arrive, instances_folder
from tests.process import ROOT

FIRST = Instance(11, "cuda:0 one", "2026-01-01T00:00:00Z", 2**30)
SECOND = FIRST._replace(pid=12)
THIRD = FIRST._replace(pid=13)

_DIES = """
import os, sys
from pathlib import Path
from server.live.neighbours import Instance, arrive
held = arrive(Path(sys.argv[1]), Instance(14, "cuda:0", "then", 1))
print("up", flush=True)
sys.stdin.read()
os._exit(1)
"""


def test_each_one_that_is_up_is_told_with_what_it_said(tmp_path: Path) -> None:
    first, alone = arrive(tmp_path, FIRST)
    second, told = arrive(tmp_path, SECOND)
    assert not alone.findings
    (finding,) = told.findings
    assert finding.message == (
        "process 11 has been on cuda:0 one since 2026-01-01T00:00:00Z, with a limit of 1.00 GiB"
    )
    first.leave()
    third, told = arrive(tmp_path, THIRD)
    assert [finding.message.split()[1] for finding in told.findings] == ["12"]
    second.leave()
    third.leave()
    assert not list(tmp_path.iterdir())


def test_what_a_dead_one_left_is_taken_away(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _DIES, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        first, told = arrive(tmp_path, FIRST)
        first.leave()
        assert len(told.findings) == 1
        other.communicate(timeout=60)
    assert len(list(tmp_path.iterdir())) == 1
    second, told = arrive(tmp_path, SECOND)
    assert not told.findings
    assert len(list(tmp_path.iterdir())) == 1
    second.leave()


ODD = (
    "{", "[]", json.dumps({}), "\0\udcff",
    json.dumps({**FIRST._asdict(), "limit_bytes": float("inf")}),
    json.dumps({**FIRST._asdict(), "device": "x" * 5000}),
    "[" * 4000,
)  # fmt: skip


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    presences = [arrive(tmp_path, FIRST)[0] for _ in ODD]
    for path, text in zip(sorted(tmp_path.iterdir()), ODD, strict=True):
        path.write_text(text, errors="surrogateescape")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("/dev/zero")
    last, told = arrive(tmp_path, SECOND)
    assert not told.findings
    for presence in (*presences, last):
        presence.leave()


def test_the_folder_is_of_this_machine_and_of_the_device() -> None:
    runtime, cache = {"XDG_RUNTIME_DIR": "/run/user/1"}, {"SERVER_CACHE_DIR": "/c"}
    end = Path("instances") / os.uname().nodename / "cpu-0"
    assert instances_folder(runtime, "cpu-0") == Path("/run/user/1/draftgate") / end
    assert instances_folder(runtime | cache, "cpu-0") == Path("/c") / end
    assert instances_folder({"HOME": "/h"}, "cpu-0") == Path("/h/.cache/draftgate") / end
    assert instances_folder({"XDG_RUNTIME_DIR": "relative"}, "cpu-0") is None
