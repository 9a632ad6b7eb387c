"""Progress of a load in bytes: a bar on a terminal, elsewhere a start, an end and a heartbeat.

One thread writes, so that a stalled read still shows; advancing only adds a number. A stream
that is closed under it ends the telling, not the load.
"""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TextIO

from server.render.style import is_terminal, style_of

_BAR_SECONDS = 0.2
_HEARTBEAT_SECONDS = 10.0
_BAR_CHARS = 24


class Progress(Protocol):
    """What a loader tells: how many more bytes are in place."""

    def advance(self, size_bytes: int) -> None:
        """Count `size_bytes` more bytes that are in their final tensor."""


class Meter:
    """Counts bytes and tells a stream about them while its `with` block runs.

    `done_bytes` of `total_bytes` can be read at any time.
    """

    def __init__(
        self,
        total_bytes: int,
        label: str,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count towards `total_bytes`; `clock` gives seconds."""
        self.total_bytes = total_bytes
        self._label = label
        self._stream: TextIO | None = stream
        self._clock = clock
        self.done_bytes = 0
        self._started = clock()
        self._bar = is_terminal(stream) and os.environ.get("TERM") != "dumb"
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._run, name="progress", daemon=True)

    def advance(self, size_bytes: int) -> None:
        """Count `size_bytes` more bytes."""
        self.done_bytes += size_bytes

    def __enter__(self) -> "Meter":
        """Tell the start."""
        if not self._bar:
            self._write(f"{self._label}: {gigabytes(self.total_bytes)} to read\n")
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell the end, or how far it came."""
        self._stop.set()
        self._writer.join()
        erase = "\r\033[K" if self._bar else ""
        what = "read" if kind is None else "read before it stopped"
        self._write(f"{erase}{self._label}: {self._summary()} {what}\n")

    def beat(self) -> None:
        """Tell how far it is: a redrawn bar, or a line."""
        if self._bar:
            told = f"{self._label} {self._drawing()} {self._summary()}{self._left()}"
            # A line that wraps is not erased by the next.
            self._write(f"\r\033[K{told[: style_of(self._stream, os.environ).width - 1]}")
        else:
            self._write(f"{self._label}: {self._summary()}{self._left()}\n")

    def _run(self) -> None:
        seconds = _BAR_SECONDS if self._bar else _HEARTBEAT_SECONDS
        while not self._stop.wait(seconds):
            self.beat()

    def _summary(self) -> str:
        elapsed = max(self._clock() - self._started, 1e-9)
        done, total = gigabytes(self.done_bytes), gigabytes(self.total_bytes)
        rate = gigabytes(int(self.done_bytes / elapsed))
        return f"{done} of {total} in {elapsed:.1f} s, {rate}/s"

    def _left(self) -> str:
        if not self.done_bytes:
            return ""
        elapsed = self._clock() - self._started
        seconds = elapsed * (self.total_bytes - self.done_bytes) / self.done_bytes
        return f", {max(seconds, 0):.0f} s left"

    def _drawing(self) -> str:
        share = self.done_bytes / self.total_bytes if self.total_bytes else 1.0
        filled = min(int(share * _BAR_CHARS), _BAR_CHARS)
        return f"[{'#' * filled}{'.' * (_BAR_CHARS - filled)}]"

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # A log collector that went away must not end a load of many minutes.
            self._stream = None


def gigabytes(size_bytes: int) -> str:
    """A size as it is told while it grows."""
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 10**8 else f"{size_bytes / 1e6:.2f} MB"
