"""A few threads that take one piece of work after another, in order. Standard library only."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

Work = TypeVar("Work", contravariant=True)

# One thread leaves half of a disk's and of a memory bus's speed unused; what more than these
# gain is small (two to eight are what public loaders settle on).
MOST_THREADS = 8
_PATIENCE_S = 0.5


class Worker(Protocol[Work]):
    """One thread's hands, made in that thread."""

    def fill(self, piece: Work, /) -> None:
        """Put one piece in its place. Raises LoadError."""

    def finish(self) -> None:
        """Called once there are no more pieces, or after a fault."""


def thread_count(sharers: int = 1) -> int:
    """Two threads, or as many as this process may use cores, up to eight.

    `sharers` processes on this host do the same at once.
    """
    return max(2, min(MOST_THREADS, len(os.sched_getaffinity(0)) // sharers))


class Team(Generic[Work]):
    """Threads that share a list of pieces. A fault stops them all; `wait` raises it.

    They are daemons: a thread that hangs in a dead disk must not keep the process from ending.
    """

    def __init__(
        self,
        make_worker: Callable[[], Worker[Work]],
        pieces: Iterable[Work],
        done: Callable[[Work], None],
        threads: int,
    ) -> None:
        """`done` is called for each piece in place, by one thread at a time."""
        self._make_worker = make_worker
        self._pieces = enumerate(pieces)
        self._done = done
        self._lock = threading.Lock()
        self._stopped = False
        self._faults: list[tuple[int, BaseException]] = []
        self._threads = [
            threading.Thread(target=self._run, name=f"load-{i}", daemon=True)
            for i in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait for every piece. Raises the fault of the first piece in order that has one."""
        try:
            for thread in self._threads:
                thread.join()
        except BaseException:
            self.stop(_PATIENCE_S)
            raise
        if self._faults:
            raise min(self._faults, key=lambda found: found[0])[1]

    def stop(self, patience_s: float | None = None) -> bool:
        """Start no more pieces, and wait for those under way; False when they take too long."""
        self._stopped = True
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(patience_s)
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def fault(self) -> BaseException | None:
        """The fault of the first piece in order that has one, so far."""
        return min(self._faults, key=lambda found: found[0])[1] if self._faults else None

    def _run(self) -> None:
        taken: tuple[int, Work] | None = None
        try:
            worker = self._make_worker()
            while (taken := self._next(taken)) is not None:
                worker.fill(taken[1])
            worker.finish()
        except BaseException as fault:  # carried to the thread that waits
            self._stopped = True
            self._faults.append((taken[0] if taken else 0, fault))

    def _next(self, finished: tuple[int, Work] | None) -> tuple[int, Work] | None:
        with self._lock:
            if finished is not None:
                self._done(finished[1])
            return None if self._stopped else next(self._pieces, None)
