"""The four endpoints, over a boot that stands still at a phase."""

import io
import os
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from server.live.port import PATHS as PORT_PATHS
from server.live.port import answer, bind
from server.live.state import State
from server.log import Log
from server.render.console import Console
from server.render.style import Style
from server.report import KvFacts, LedgerLine, MemoryFacts, Phase, Report
from server.weights.progress import Meter
from tests.boots import make_log, said
from tests.live.ask import PATIENCE_S, ask

pytest.importorskip("starlette", reason="the http extra is not installed")
pytest.importorskip("uvicorn", reason="the http extra is not installed")

LINES = (
    LedgerLine("target weights", 100, 101),
    LedgerLine('odd "line"\\\n', 7),
)
KV = KvFacts(4, 2, 16, 96, 3, 1, 32, 20, 1)
_LISTEN = "0A"  # a connection of another address of this machine may have the port's number
_SAMPLE = re.compile(r'(draftgate_\w+)((?:\{\w+="(?:[^"\\\n]|\\[\\n"])*"\})?) (-?[\d.]+)')


@pytest.fixture
def log() -> Log:
    log = make_log()
    log.current = "load"
    log.report.phases = [Phase("torch", 1500.0), Phase("load", 1.0), Phase("load", 2.0)]
    log.report.memory = MemoryFacts("cpu", 1000, 900, "0.9", LINES, KV)
    return log


@pytest.fixture
def state(log: Log) -> State:
    return State(log)


@contextmanager
def answering_for(state: State) -> Iterator[int]:
    listening, outcome = bind(0)
    assert listening is not None, outcome
    answering, outcome = answer(listening, state)
    assert answering is not None, outcome
    yield answering.number
    answering.close()


@pytest.fixture
def port(state: State) -> Iterator[int]:
    with answering_for(state) as number:
        yield number


@pytest.fixture(scope="module")
def any_port() -> Iterator[int]:
    """For tests that only ask: it takes a moment to open and to close."""
    with answering_for(State(make_log())) as number:
        yield number


def test_it_is_ready_only_once_everything_is_held(state: State, port: int) -> None:
    assert ask(port, "/health").status == 200
    before = ask(port, "/ready")
    assert (before.status, before.json) == (503, {"ready": False, "phase": "load"})
    state.ready = True
    after = ask(port, "/ready")
    assert (after.status, after.json) == (200, {"ready": True, "phase": "ready"})


def test_the_report_has_the_ledger_so_far_and_no_verdict_before_it_is_known(
    state: State, log: Log, port: int
) -> None:
    meter = Meter(300, "load target", io.StringIO())
    meter.advance(200)
    log.loads["target"] = meter
    early = ask(port, "/report")
    assert early.kind == "application/json"
    assert (early.json["verdict"], early.json["exit_code"]) == (None, None)
    assert early.json["memory"]["ledger"][0]["billed_bytes"] == 100
    loads = [{"role": "target", "done_bytes": 200, "total_bytes": 300}]
    assert early.json["live"] == {"ready": False, "phase": "load", "loads": loads}
    assert early.json["elapsed_s"] > 0
    state.ready = True
    late = ask(port, "/report").json
    assert (late["verdict"], late["exit_code"]) == ("accept", 0)


def test_metrics_are_samples_that_prometheus_reads(log: Log, port: int) -> None:
    meter = Meter(300, "load target", io.StringIO())
    meter.advance(200)
    log.loads["target"] = meter
    told = ask(port, "/metrics")
    assert told.kind == "text/plain; version=0.0.4; charset=utf-8"
    lines = told.text.splitlines()
    samples: dict[str, float] = {}
    for line in lines:
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP draftgate_\w+ .+|TYPE draftgate_\w+ gauge)", line)
            continue
        matched = _SAMPLE.fullmatch(line)
        assert matched, line
        name, labels, value = matched.groups()
        assert f"# TYPE {name} gauge" in lines[: lines.index(line)]
        assert name + labels not in samples, "one sample, twice"
        samples[name + labels] = float(value)
    assert told.text.endswith("\n")
    assert (
        samples.items()
        >= {
            "draftgate_ready": 0,
            'draftgate_phase{phase="load"}': 1,
            'draftgate_phase_seconds{phase="torch"}': 1.5,
            'draftgate_phase_seconds{phase="load"}': 0.003,
            'draftgate_load_bytes{role="target"}': 200,
            'draftgate_load_total_bytes{role="target"}': 300,
            "draftgate_memory_limit_bytes": 900,
            'draftgate_ledger_billed_bytes{line="target weights"}': 100,
            'draftgate_ledger_billed_bytes{line="odd \\"line\\"\\\\\\n"}': 7,
            'draftgate_ledger_measured_bytes{line="target weights"}': 101,
            "draftgate_kv_usable_tokens": 32,
        }.items()
    )


def test_what_is_not_known_yet_is_left_out_and_no_fault(any_port: int) -> None:
    text = ask(any_port, "/metrics").text
    assert ask(any_port, "/report").json["memory"] is None
    assert "draftgate_ready 0" in text
    assert not re.search("ledger|memory|load_bytes|phase_seconds", text)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:99", 200),
        ("LOCALHOST", 200),
        ("rebound.example", 400),
        ("127.0.0.1.rebound.example", 400),
        ("localhost.rebound.example:80", 400),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/report"])
def test_only_who_means_this_machine_is_answered(
    any_port: int, path: str, host: str, status: int
) -> None:
    assert ask(any_port, path, host=host).status == status


PATHS = ["/health", "/ready", "/report", "/metrics"]


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/health/live", "/Ready", "/%2e%2e/x"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_elsewhere_the_paths_that_are_answered_are_told(
    any_port: int, path: str, method: str
) -> None:
    found = ask(any_port, path, method)
    assert (found.status, found.kind) == (404, "text/plain; charset=utf-8")
    told = f"not found; this port answers {' '.join(PATHS)}\n"
    assert found.text == ("" if method == "HEAD" else told)
    asked = ask(any_port, path, method, accept="application/json")
    assert (asked.status, asked.kind) == (404, "application/json")
    if method != "HEAD":
        assert asked.json == {"error": "not found", "paths": PATHS}


@pytest.mark.parametrize("path", PATHS)
def test_what_would_change_something_is_not_answered(any_port: int, path: str) -> None:
    assert ask(any_port, path, "HEAD").text == ""
    refused = ask(any_port, path, "POST")
    assert (refused.status, refused.text) == (
        405,
        f"method not allowed; this port answers GET and HEAD of {' '.join(PATHS)}\n",
    )
    asked = ask(any_port, path, "DELETE", accept="application/json").json
    assert asked == {"error": "method not allowed", "paths": PATHS}


def test_the_line_of_the_boot_names_the_same_paths() -> None:
    assert list(PORT_PATHS) == PATHS


def test_it_listens_on_the_loopback_address_only(any_port: int) -> None:
    own = f":{any_port:04X}"
    tables = (Path("/proc/net") / name for name in ("tcp", "tcp6"))
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()]
    listens = [place for _, place, _, state, *_ in map(str.split, lines) if state == _LISTEN]
    listening = {place for place in listens if place.endswith(own)}
    assert listening == {f"0100007F{own}"}


def test_a_client_that_says_nothing_does_not_keep_it_open(log: Log) -> None:
    listening, _ = bind(0)
    assert listening is not None
    answering, _ = answer(listening, State(log))
    assert answering is not None
    ask(answering.number, "/health")
    with socket.create_connection(("127.0.0.1", answering.number)) as silent:
        silent.sendall(b"GET /health HTTP/1.1\r\n")
        answering.close()
        with pytest.raises(ConnectionRefusedError):
            _knock(answering.number)


def _knock(port: int) -> None:
    """Until it is closed: the thread that answers may wait for its turn."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        socket.create_connection(("127.0.0.1", port)).close()


def test_clients_that_say_nothing_keep_no_probe_out(port: int) -> None:
    with ExitStack() as many:
        for _ in range(200):
            silent = many.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        assert ask(port, "/health").status == 200
        held = [end for end in os.listdir("/proc/self/fd") if _is_socket(end)]
        assert len(held) < 200 + 100  # both ends of a connection are here
        silent.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert silent.recv(100).startswith(b"HTTP/1.1 200")


def _is_socket(descriptor: str) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return False


def test_garbage_is_answered_and_told_nowhere(
    log: Log, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", port)) as odd:
        odd.settimeout(20)
        odd.sendall(b"\0\xff nonsense\r\n\r\n")
        assert odd.recv(100).startswith(b"HTTP/1.1 400")
    ask(port, "/health")
    assert said(log) == ""
    assert capfd.readouterr() == ("", "")


def test_a_client_without_a_descriptor_is_told_nowhere(
    log: Log, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(port, "/health")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client, ExitStack() as files:
        client.settimeout(60)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                files.enter_context(open("/dev/null"))
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.5)
        files.close()
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert said(log) == ""
    assert capfd.readouterr() == ("", "")


def test_requests_are_told_with_verbose() -> None:
    log = Log(Report(), Console(io.StringIO(), Style(verbose=True)))
    listening, _ = bind(0)
    assert listening is not None
    answering, _ = answer(listening, State(log))
    assert answering is not None
    ask(answering.number, "/health")
    ask(answering.number, "/ready?token=hunter2hunter2")
    answering.close()
    assert '"GET /health HTTP/1.1" 200' in said(log)
    assert '"GET /ready?token=***' in said(log)
