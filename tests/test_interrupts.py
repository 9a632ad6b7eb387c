"""How a boot hears SIGTERM and SIGINT: always, once, and never as a traceback."""

import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from server.interrupts import Interrupted, Interrupts

PATIENCE_S = 20


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


def test_a_deferred_signal_is_only_remembered(ears: Interrupts) -> None:
    ears.defer()
    assert ears.number is None
    signal.raise_signal(signal.SIGINT)
    assert ears.number == signal.SIGINT


def test_where_the_boot_hears_no_other_thread_ends_it(ears: Interrupts) -> None:
    overdue: list[int] = []

    def told(number: int) -> int:
        overdue.append(number)
        return 0

    before = threading.active_count()
    heard = Interrupts(told)
    heard.listen()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGTERM)
    heard.defer()
    assert (overdue, threading.active_count()) == ([], before)
    assert signal.set_wakeup_fd(-1) == -1


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
