"""What a load says: lines to a log, a bar to a terminal, nothing that can end the load."""

import os
from io import StringIO

import pytest

from server.weights.progress import Meter


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Broken(StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


def test_a_log_gets_a_start_a_heartbeat_and_an_end() -> None:
    stream, clock = StringIO(), Clock()
    with Meter(4_000_000_000, "target", stream, clock) as meter:
        clock.now += 10
        meter.advance(1_000_000_000)
        meter.beat()
        meter.advance(3_000_000_000)
        clock.now += 10
    assert stream.getvalue().splitlines() == [
        "target: 4.00 GB to read",
        "target: 1.00 GB of 4.00 GB in 10.0 s, 0.10 GB/s, 30 s left",
        "target: 4.00 GB of 4.00 GB in 20.0 s, 0.20 GB/s read",
    ]


def test_a_bar_is_no_wider_than_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 99)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((50, 24)))
    with Meter(200_000_000, "draft", stream, Clock()) as meter:
        meter.advance(100_000_000)
        meter.beat()
    bars = [part for part in stream.getvalue().split("\r\033[K") if "[" in part]
    assert bars
    assert {len(bar) for bar in bars} == {49}


def test_a_terminal_that_cannot_redraw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Meter(200_000_000, "draft", stream, Clock()) as meter:
        meter.beat()
    assert "\033" not in stream.getvalue()
    assert stream.getvalue().startswith("draft: 0.20 GB to read\n")


def test_a_terminal_gets_a_bar_that_is_erased() -> None:
    stream, clock = Terminal(), Clock()
    with Meter(200_000_000, "draft", stream, clock) as meter:
        clock.now += 1
        meter.advance(100_000_000)
        meter.beat()
    text = stream.getvalue()
    assert f"\r\033[Kdraft [{'#' * 12}{'.' * 12}] 0.10 GB of 0.20 GB" in text
    assert text.endswith("\r\033[Kdraft: 0.10 GB of 0.20 GB in 1.0 s, 0.10 GB/s read\n")
    assert "to read" not in text


def test_a_log_gets_no_escape_codes() -> None:
    stream = StringIO()
    with Meter(10, "draft", stream) as meter:
        meter.beat()
    assert "\033" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


def test_a_load_that_stops_says_how_far_it_came() -> None:
    stream, clock = StringIO(), Clock()
    meter = Meter(8_000_000, "target", stream, clock)

    def stop() -> None:
        with meter:
            meter.advance(2_000_000)
            clock.now += 1
            raise KeyError

    with pytest.raises(KeyError):
        stop()
    assert stream.getvalue().endswith(
        "2.00 MB of 8.00 MB in 1.0 s, 2.00 MB/s read before it stopped\n"
    )


def test_no_bytes_at_all() -> None:
    stream = Terminal()
    with Meter(0, "draft", stream) as meter:
        meter.beat()
    assert "0.00 MB of 0.00 MB" in stream.getvalue()


def test_a_closed_pipe_ends_the_telling_only() -> None:
    closed = StringIO()
    closed.close()
    for stream in (Broken(), closed):
        with Meter(10, "target", stream) as meter:
            meter.beat()
            meter.advance(10)
            meter.beat()
