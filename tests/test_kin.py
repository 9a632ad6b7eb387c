"""A process that ended is told from one that runs, from another's number, and from a stranger."""

import json
import os
import subprocess
import sys

from server.kin import has_ended, own_mark

_TELL = "from server.kin import own_mark; print(own_mark(), flush=True); input()"


def test_this_process_runs() -> None:
    assert json.loads(own_mark())[1] == os.getpid()
    assert not has_ended(own_mark())


def test_a_process_that_is_killed_has_ended_before_and_after_it_is_waited_for() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        mark = other.stdout.readline()
        assert not has_ended(mark)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(mark)
    assert has_ended(mark)


def test_another_process_of_that_number_is_another() -> None:
    here, pid, start = json.loads(own_mark())
    assert has_ended(json.dumps([here, pid, str(int(start) + 1)]))


def test_nothing_is_known_of_another_host_nor_of_who_said_nothing() -> None:
    start = json.loads(own_mark())[2]
    assert not has_ended(json.dumps(["elsewhere", 2**22 + 1, start]))
    assert not has_ended("")
