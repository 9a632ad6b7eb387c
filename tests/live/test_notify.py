"""systemd is told each phase, READY once and STOPPING; one that is not there is no fault."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from server.live.notify import Notifier
from tests.process import run


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.settimeout(20)
        if request.param == "path":
            heard.bind(str(tmp_path / "notify"))
            yield heard, str(tmp_path / "notify")
        else:
            heard.bind("")  # the kernel picks a name
            yield heard, f"@{heard.getsockname()[1:].decode()}"


def test_a_manager_hears_states_and_one_line_of_status(
    manager: tuple[socket.socket, str],
) -> None:
    heard, address = manager
    Notifier({"NOTIFY_SOCKET": address}).tell("load\nREADY=1 \udcff", "STOPPING=1")
    assert heard.recv(4096) == b"STOPPING=1\nSTATUS=load READY=1 \\udcff"


@pytest.mark.parametrize(
    "address", ["", "relative", "vsock:2:1234", "/" + "x" * 300, "/nul\0byte", "/no/such/socket"]
)
def test_a_manager_that_cannot_be_told_is_no_fault(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).tell("load")


def test_a_manager_that_does_not_listen_does_not_hold_up_the_boot(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(address)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    other.sendto(b"x", address)
            Notifier({"NOTIFY_SOCKET": address}).tell("load")
            Notifier({"NOTIFY_SOCKET": address}).tell("ready", "READY=1")


def test_a_boot_that_ends_by_itself_never_says_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.settimeout(20)
        heard.bind(str(tmp_path / "notify"))
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        done = run("--target", "nowhere", "--draft", "sample:dspine", cache=tmp_path, env=env)
        told = [heard.recv(4096).decode() for _ in range(4)]
    assert done.code == 78
    assert told[0] == "STATUS=draft config"
    assert told[-1].startswith("STOPPING=1\nSTATUS=refused: 2 errors; ")
    assert "READY=1" not in "".join(told)
