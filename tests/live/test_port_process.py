"""The port of a whole boot: open before the load, answering during it, gone with the process."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.ask import ask
from tests.live.stalls import SLOW_LOAD, started
from tests.process import ROOT, SMALL, run, witness
from tests.test_boot_process import ONCE, TARGET, read_until

pytest.importorskip("starlette", reason="the http extra is not installed")
pytest.importorskip("uvicorn", reason="the http extra is not installed")

HEAVY = {"torch", "numpy", "pynvml"}
# Converted, so that the load itself reads every piece.
PORT = (*TARGET, *SMALL, "--dtype", "float32", "--port", "0")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def port_of(process: subprocess.Popen[str]) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+) ", read_until(process, "port: ")[-1])
    assert found is not None
    return int(found[1])


@contextmanager
def manager(place: Path) -> Iterator[list[str]]:
    """What a service manager at `place` has heard; whole when the block ends."""
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(place))
        hearing = threading.Thread(target=_hear, args=(own, heard))
        hearing.start()
        try:
            yield heard
        finally:
            own.shutdown(socket.SHUT_RDWR)
            hearing.join()


def _hear(own: socket.socket, heard: list[str]) -> None:
    while text := own.recv(4096):
        heard.append(text.decode())


def loaded_bytes(port: int) -> tuple[int, int]:
    text = ask(port, "/metrics").text
    done, total = re.findall(r'draftgate_load(?:_total)?_bytes\{role="target"\} (\d+)', text)
    return int(done), int(total)


def test_a_slow_load_answers_and_is_ready_only_at_its_end(cache: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with (
        manager(tmp_path / "notify") as told,
        started(
            SLOW_LOAD, str(go), *PORT, cache=cache, env={"NOTIFY_SOCKET": str(tmp_path / "notify")}
        ) as process,
    ):
        port = port_of(process)
        read_until(process, "load target: ")
        assert ask(port, "/health").status == 200
        early = ask(port, "/ready")
        assert (early.status, early.json["phase"]) == (503, "load")
        report = ask(port, "/report").json
        assert report["verdict"] is None
        assert report["memory"]["ledger"]
        assert report["settings"]["port"]["value"] == port
        done_bytes, total_bytes = loaded_bytes(port)
        assert 0 <= done_bytes < total_bytes
        go.touch()
        read_until(process, "ready: ")
        assert ask(port, "/ready").status == 200
        last = ask(port, "/report").json
        assert last["verdict"] == "accept"
        assert loaded_bytes(port) == (total_bytes, total_bytes)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in rest) == (0, False)
    assert told[:11] == [f"STATUS={phase['name']}" for phase in last["phases"]]
    assert told[11:] == [
        "READY=1\nSTATUS=ready",
        "STOPPING=1\nSTATUS=SIGTERM: models and KV pool released; exit 0",
    ]
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/health")


def test_a_second_boot_is_told_of_the_first_and_goes_on(cache: Path, tmp_path: Path) -> None:
    def others() -> list[str]:
        done = run(*PORT, ONCE, "--output-format", "json", cache=cache)
        assert (done.code, done.stderr) == (0, "")
        assert done.json["settings"]["port"]["value"] > 0, "it is not told which was picked"
        return [d["message"] for d in done.json["diagnostics"] if d["rule"] == "SD611"]

    never = str(tmp_path / "never")
    with started(SLOW_LOAD, never, *PORT, cache=cache) as process:
        read_until(process, "load target: ")
        (told,) = others()
        assert told.startswith(f"process {process.pid} has been on cpu ")
    assert others() == [], "it was killed"


def test_a_signal_ends_a_load_that_hangs_and_closes_the_port(cache: Path, tmp_path: Path) -> None:
    never = str(tmp_path / "never")
    with started(SLOW_LOAD, never, *PORT, cache=cache) as process:
        port = port_of(process)
        read_until(process, "load target: ")
        assert ask(port, "/ready").status == 503
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 143, rest
    assert "Traceback" not in rest
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/health")


def test_a_port_that_is_taken_ends_the_boot_before_torch(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = str(other.getsockname()[1])
        done = witness(*TARGET, "--port", number, cache=cache)
    assert done.code == 75, done.stderr
    assert done.error_lines[0].startswith(
        f"error[SD610] port-busy: --port is {number}, and 127.0.0.1:{number} cannot be opened: "
    )
    assert "target not loaded, device not touched" in done.verdict_line
    assert not HEAVY & set(done.modules)


def test_a_package_that_is_missing_ends_the_boot_before_torch(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError('No module named uvicorn')\n")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = witness(*TARGET, "--port", "0", cache=cache, env=env)
    assert done.code == 69, done.stderr
    told = "what answers on --port cannot be imported: ModuleNotFoundError: No module named uvicorn"
    assert done.error_lines[0] == f"error[SD612] http-unusable: {told}"
    assert "pip install starlette uvicorn" in done.stderr
    assert not HEAVY & set(done.modules)


@pytest.mark.parametrize("arguments", [("--check",), ("--draft", "sample:dspine")])
def test_a_verdict_of_the_gate_opens_no_port(cache: Path, arguments: tuple[str, ...]) -> None:
    done = witness(*TARGET, *arguments, "--port", "0", cache=cache)
    assert done.code == (0 if "--check" in arguments else 78)
    assert not {"starlette", "uvicorn", "server.live.port"} & set(done.modules)
