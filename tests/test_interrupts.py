"""How a boot hears SIGTERM and SIGINT: always, once, and never as a traceback."""

import ctypes
import operator
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from itertools import starmap

import pytest

from server.interrupts import Interrupted, Interrupts
from tests.process import ROOT

PATIENCE_S = 20
_IN_TIME = """
import signal, threading, time
from server import interrupts
interrupts._PATIENCE_S = interrupts._AGAIN_S = 600
ears = interrupts.Interrupts(lambda number: 7)
ears.listen()
try:
    signal.raise_signal(signal.SIGTERM)
except interrupts.Interrupted:
    time.sleep(0.5)
    ears.defer()
    print("heard", threading.active_count(), flush=True)
"""
# The main thread hears only once the other one tells already.
_LATE = """
import signal, threading, time
from server import interrupts
interrupts._AGAIN_S = 600
begun = threading.Event()
def overdue(number):
    begun.set()
    time.sleep(0.5)
    print("told", number, flush=True)
    return 7
ears = interrupts.Interrupts(overdue)
ears.listen()
try:
    signal.raise_signal(signal.SIGTERM)
except interrupts.Interrupted:
    begun.wait()
    ears.defer()
    print("told twice", flush=True)
"""

# What tells does not come to its end: nobody reads it.
_STALLED = """
import os, signal, sys, time
from server import interrupts
interrupts._LAST_S = 0.3
interrupts._PATIENCE_S = 0.1 if sys.argv[1] == "deaf" else 600
def stall(*_):
    os.read(os.pipe()[0], 1)
ears = interrupts.Interrupts(stall)
ears.listen()
try:
    if sys.argv[1] == "during the boot":
        signal.raise_signal(signal.SIGTERM)
    if sys.argv[1] == "deaf":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        ears._raising = False
        signal.raise_signal(signal.SIGTERM)
        stall()
except interrupts.Interrupted:
    pass
ears.defer()
if sys.argv[1] == "while it tells":
    signal.raise_signal(signal.SIGTERM)
if sys.argv[1] == "and it ends":
    interrupts._LAST_S = 600
    signal.raise_signal(signal.SIGTERM)
    ears.close()
    signal.raise_signal(signal.SIGALRM)
    sys.exit(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
stall()
"""


def run_script(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


class Thing:
    pass


@pytest.fixture
def ears() -> Iterator[Interrupts]:
    numbers = (*Interrupts().numbers, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests begin with it ignored
    hook = sys.unraisablehook
    ears = Interrupts()
    ears.listen()
    yield ears
    ears.defer()
    ears.close()
    for number, handler in before.items():
        signal.signal(number, handler)
    sys.unraisablehook = hook


def spin() -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_raised_where_the_boot_is(ears: Interrupts, number: signal.Signals) -> None:
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(number)
    assert caught.value.number == ears.number == number
    assert str(caught.value) == number.name


def test_a_signal_that_a_callback_swallows_is_raised_again(
    ears: Interrupts, capsys: pytest.CaptureFixture[str]
) -> None:
    thing = Thing()
    kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    del thing  # python drops what a callback raises, and says so on standard error
    assert kept() is None
    with pytest.raises(Interrupted) as caught:
        spin()
    assert caught.value.number == signal.SIGTERM
    assert capsys.readouterr().err == ""


def test_another_dropped_exception_is_still_told(
    ears: Interrupts, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))
    Interrupts().listen()
    thing = Thing()
    kept = weakref.ref(thing, lambda _: 1 // 0)
    del thing
    assert kept() is None
    assert told == [ZeroDivisionError]


def test_a_second_signal_is_not_raised_while_the_first_is_told(ears: Interrupts) -> None:
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    assert ears.number == signal.SIGTERM


def at_the_first_step(ears: Interrupts, number: signal.Signals) -> None:
    """`defer`, with a signal that Python sees at its first step: C does both calls in a row."""
    heard = getattr(ctypes.CDLL(None), "raise")
    list(starmap(operator.call, ((heard, int(number)), (ears.defer,))))


def test_a_signal_that_comes_again_while_it_is_caught_is_not_raised(ears: Interrupts) -> None:
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGTERM)
    at_the_first_step(ears, signal.SIGALRM)
    assert ears.number == signal.SIGTERM


def test_a_signal_at_the_end_of_the_boot_is_remembered(ears: Interrupts) -> None:
    at_the_first_step(ears, signal.SIGTERM)
    assert ears.number == signal.SIGTERM
    assert ears.wait() == signal.SIGTERM


def test_a_deferred_signal_is_only_remembered(ears: Interrupts) -> None:
    ears.defer()
    assert ears.number is None
    signal.raise_signal(signal.SIGINT)
    assert ears.number == signal.SIGINT


def test_a_boot_that_hears_in_time_ends_by_itself() -> None:
    done = run_script(_IN_TIME)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard 1\n", "")


def test_a_boot_that_hears_late_leaves_the_end_to_the_other_thread() -> None:
    done = run_script(_LATE)
    assert (done.returncode, done.stdout, done.stderr) == (7, "told 15\n", "")


@pytest.mark.parametrize("early", [True, False])
def test_waiting_ends_with_the_signal(ears: Interrupts, early: bool) -> None:
    ears.defer()
    if early:
        signal.raise_signal(signal.SIGTERM)
    else:
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    assert ears.wait() == signal.SIGTERM


def test_a_hang_up_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    assert signal.SIGHUP not in Interrupts().numbers


@pytest.mark.parametrize(
    ("when", "code"),
    [("during the boot", 143), ("while it tells", 143), ("deaf", 143), ("and it ends", 0)],
)
def test_a_reader_that_stops_to_read_holds_nobody_up(when: str, code: int) -> None:
    done = run_script(_STALLED, when)
    assert (done.returncode, done.stderr) == (code, "")
