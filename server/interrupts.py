"""SIGTERM, SIGINT and SIGHUP: raised while the boot works, remembered once its verdict is told.

Python runs a handler between any two steps of the main thread, whichever thread the kernel gave
the signal to; a blocked mask keeps it out of one thread only. So nothing here is masked: the
handler itself knows when it may raise.
"""

import os
import signal
import sys
from types import FrameType

# An exception raised inside a callback (a weak reference's, a finalizer's) is dropped there.
_AGAIN_S = 0.1


class Interrupted(BaseException):
    """A signal that ends the boot arrived; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        """Remember which signal it was."""
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """The process's ears. `number` is the first signal that came; later ones change nothing."""

    def __init__(self) -> None:
        """Hear nothing yet. A hang-up that is ignored (nohup) stays ignored."""
        hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self.numbers = (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if hang_up else ()))
        self.number: int | None = None
        self._raising = False

    def listen(self) -> None:
        """From here on a signal raises Interrupted, again and again until `defer` is called."""
        self._raising = True
        _forget_dropped()
        for number in (*self.numbers, signal.SIGALRM):
            signal.signal(number, self._heard)
        # A rank is started with these blocked, so that none is lost before this moment.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.numbers)

    def defer(self) -> None:
        """From here on a signal is remembered and nothing is raised."""
        self._raising = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def wait(self) -> int:
        """Block until a signal has come, or came since `listen`; returns its number."""
        reader = self.bell()
        while self.number is None:
            os.read(reader, 1)
        return self.number

    def bell(self) -> int:
        """A descriptor that can be read once a signal comes after this call."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The signal may reach any thread; the pipe wakes this one whichever it was.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        return reader

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            if self.number is not None:
                return
            self.number = number
        if self._raising and self.number is not None:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            raise Interrupted(self.number)


def _forget_dropped() -> None:
    """Have Python not report an Interrupted that it dropped: it comes again."""
    report = sys.unraisablehook

    def hook(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, Interrupted):
            report(dropped)

    sys.unraisablehook = hook
