"""SIGTERM, SIGINT and SIGHUP: raised while the boot works, remembered once its verdict is told.

Python runs a handler between any two steps of the main thread, whichever thread the kernel gave
the signal to; a blocked mask keeps it out of one thread only. So nothing here is masked: the
handler itself knows when it may raise.

A handler waits for the main thread to come back from what it does outside of Python (a GB of
zeros, a dead disk). Where that takes long, a thread of its own ends the process in its place.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

# An exception raised inside a callback (a weak reference's, a finalizer's) is dropped there.
_AGAIN_S = 0.1
# What is left of a second is for telling.
_PATIENCE_S = 0.5
# Who reads what is told may have stopped to read: then the process ends without.
_LAST_S = 10.0


class Interrupted(BaseException):
    """A signal that ends the boot arrived; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        """Remember which signal it was."""
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """The process's ears. `number` is the first signal that came; later ones change nothing."""

    def __init__(self, overdue: Callable[[int], int] | None = None) -> None:
        """Hear nothing yet. A hang-up that is ignored (nohup) stays ignored.

        `overdue` is called with the signal's number, in another thread, where the main thread
        does not hear; it tells, and the process ends with the code that it gives.
        """
        hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self.numbers = (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if hang_up else ()))
        self.number: int | None = None
        self._raising = False
        self._overdue = overdue
        self._deferred = threading.Event()
        self._insisting: tuple[threading.Thread, int] | None = None

    def listen(self) -> None:
        """From here on a signal raises Interrupted, again and again until `defer` is called."""
        self._raising = True
        _forget_dropped()
        if self._overdue is not None:
            # Without a thread or a file to spare the boot comes to a place that tells of it.
            with suppress(RuntimeError, OSError):
                self._start_insisting(self._overdue)
        for number in (*self.numbers, signal.SIGALRM):
            signal.signal(number, self._heard)
        # A rank is started with these blocked, so that none is lost before this moment.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.numbers)

    def defer(self) -> None:
        """From here on a signal is remembered and nothing is raised; `close` must come in time.

        Does not return where another thread is ending the process already.
        """
        self._raising = False
        signal.setitimer(signal.ITIMER_REAL, 0 if self.number is None else _LAST_S)
        if self._insisting is None:
            return
        self._deferred.set()
        (thread, writer), self._insisting = self._insisting, None
        signal.set_wakeup_fd(-1)
        os.close(writer)
        thread.join()

    def close(self) -> None:
        """All is told: the process takes as long to end as it needs."""
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def wait(self) -> int:
        """Block until a signal has come, or came since `listen`; returns its number."""
        reader = self.bell()
        while self.number is None:
            os.read(reader, 1)
        return self.number

    def bell(self) -> int:
        """A descriptor that can be read once a signal comes after this call."""
        return _wake_up_pipe()[0]

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            if self.number is not None:
                return
            self.number = number
        if self.number is None:
            return
        if self._raising:
            if frame is not None and frame.f_code is Interrupts.defer.__code__:
                return  # about to be deferred, where nobody may catch it any more
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            raise Interrupted(self.number)
        if number == signal.SIGALRM:
            os._exit(128 + self.number)
        signal.setitimer(signal.ITIMER_REAL, _LAST_S)

    def _start_insisting(self, overdue: Callable[[int], int]) -> None:
        """Raises OSError and RuntimeError."""
        reader, writer = _wake_up_pipe()
        thread = threading.Thread(target=self._insist, args=(reader, overdue), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            signal.set_wakeup_fd(-1)
            os.close(writer)
            os.close(reader)
            raise
        self._insisting = thread, writer

    def _insist(self, reader: int, overdue: Callable[[int], int]) -> None:
        """End the process where the main thread does not, until `defer`."""
        while came := os.read(reader, 1):
            if came[0] in self.numbers and not self._deferred.wait(_PATIENCE_S):
                code = 128 + came[0]
                with suppress(RuntimeError):
                    threading.Thread(target=_end_later, args=(code,), daemon=True).start()
                try:
                    code = overdue(came[0])
                finally:
                    end_now(code)
        os.close(reader)


def end_now(code: int) -> None:
    """End the process with what it has told, whatever its threads do."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end_later(code: int) -> None:
    time.sleep(_LAST_S)
    os._exit(code)


def _wake_up_pipe() -> tuple[int, int]:
    """A pipe that gets the number of each signal at once, whichever thread is to handle it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader, writer


def _forget_dropped() -> None:
    """Have Python not report an Interrupted that it dropped: it comes again."""
    report = sys.unraisablehook

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, Interrupted):
            report(dropped)

    sys.unraisablehook = hook
