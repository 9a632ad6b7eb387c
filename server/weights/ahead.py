"""Reading weights while torch is still being imported. Standard library only.

Where a host keeps the weights as they are stored, the bytes go to their final place; elsewhere
they are read into the kernel's page cache only, from which the load then copies.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate

from server.weights.arena import Arena
from server.weights.load_plan import LoadPlan
from server.weights.pieces import (
    PIECE_BYTES,
    Held,
    LoadError,
    Piece,
    batches,
    cut,
    open_files,
    read_batch,
)
from server.weights.prefetch import Prefetch
from server.weights.team import Team, Worker

_PATIENCE_S = 0.5
_MOST_THREADS = 2
# One read: each return to Python waits for the importing thread.
_BATCH_BYTES = 64 * 2**20
# The importing thread keeps Python's lock for 5 ms at a time by default, and each read waits for
# it twice. Much less than a millisecond, and the threads that wait wake up for nothing.
_SWITCH_S = 1e-3


@dataclass(slots=True)
class Ahead:
    """One plan, and what of it is held already: in `arena`, or in the page cache."""

    plan: LoadPlan
    arena: Arena | None = None
    held: Held = field(default_factory=Held)


class ReadAhead:
    """Reads until `stop`, which the load calls; leaving the `with` block ends it in any case."""

    def __init__(self, plans: Sequence[Ahead], cache_bytes: int = 0) -> None:
        """`cache_bytes`: at most so much is read of plans without an arena."""
        self.plans = {ahead.plan.role: ahead for ahead in plans}
        self.read_bytes = 0
        self.filled_bytes = 0
        self._cache_bytes = cache_bytes
        self._owners: dict[int, Ahead] = {}
        self._files = ExitStack()
        self._prefetch = Prefetch((), _held_by(self._owners))
        self._team: Team[tuple[Piece, ...]] | None = None
        self._fault: LoadError | None = None
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> "ReadAhead":
        """Open the files, and start. A fault is kept for `stop`."""
        try:
            pieces = [piece for ahead in self.plans.values() for piece in self._pieces(ahead)]
        except LoadError as fault:
            self._fault = fault
            return self
        self._prefetch = Prefetch(pieces, _held_by(self._owners))
        work = batches(self._prefetch, _BATCH_BYTES)
        # One processor is for the thread that imports.
        threads = max(1, min(_MOST_THREADS, len(os.sched_getaffinity(0)) - 1))
        self._team = Team(self._make_reader, work, self._done, threads)
        sys.setswitchinterval(_SWITCH_S)
        self._prefetch.start()
        self._team.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Start no more reads; a read that hangs is left to the end of the process."""
        sys.setswitchinterval(self._switch_s)
        self._prefetch.stop(0.0)
        ended = self._team is None or self._team.stop(_PATIENCE_S)
        if self._prefetch.stop(_PATIENCE_S if ended else 0.0) and ended:
            self._files.close()

    def wait(self) -> None:
        """Read everything. Raises LoadError."""
        if self._team is not None:
            self._team.wait()
        self.stop()

    def stop(self) -> None:
        """Finish the batches under way, so that what is `held` stands. Raises LoadError."""
        sys.setswitchinterval(self._switch_s)
        self._prefetch.stop()
        if self._team is not None:
            self._team.stop()
            if isinstance(fault := self._team.fault, LoadError):
                raise fault
            if fault is not None:
                raise RuntimeError("reading ahead failed") from fault
            self._team = None  # which refers to this object: nobody is to collect that
        self._files.close()
        if self._fault is not None:
            raise self._fault

    def _pieces(self, ahead: Ahead) -> list[Piece]:
        if ahead.arena is None and not self._cache_bytes:
            return []
        descriptors = self._files.enter_context(open_files(ahead.plan))
        self._owners |= dict.fromkeys(descriptors.values(), ahead)
        pieces = list(cut(ahead.plan, descriptors))
        if ahead.arena is None:
            ends = accumulate(piece.size_bytes for piece in pieces)
            pieces = [p for p, end in zip(pieces, ends, strict=True) if end <= self._cache_bytes]
            self._cache_bytes -= sum(piece.size_bytes for piece in pieces)
        return pieces

    def _make_reader(self) -> Worker[tuple[Piece, ...]]:
        return _Reader(self._owners, self._prefetch)

    def _done(self, batch: tuple[Piece, ...]) -> None:
        ahead = self._owners[batch[0].descriptor]
        size_bytes = sum(piece.size_bytes for piece in batch)
        self.read_bytes += size_bytes
        if ahead.arena is not None:
            ahead.held.filled.update(piece.number for piece in batch)
            self.filled_bytes += size_bytes


def _held_by(owners: dict[int, Ahead]) -> Callable[[Piece], Held]:
    return lambda piece: owners[piece.descriptor].held


class _Reader:
    """Reads into the arena, or into a scratch buffer that nobody looks at."""

    def __init__(self, owners: dict[int, Ahead], prefetch: Prefetch) -> None:
        self._owners = owners
        self._prefetch = prefetch
        self._scratch = memoryview(b"")

    def fill(self, batch: tuple[Piece, ...]) -> None:
        """Pages are left to the read: asking for them holds the lock that every import needs to
        map a library. Without, a cold boot of 2 GB took 2.1 s instead of 2.6.
        """
        arena = self._owners[batch[0].descriptor].arena
        if arena is None:
            self._scratch = self._scratch or memoryview(bytearray(PIECE_BYTES))
            read_batch(batch, [self._scratch[: piece.size_bytes] for piece in batch])
            return
        read_batch(batch, [_place(arena, piece) for piece in batch])
        self._prefetch.release(batch)

    def finish(self) -> None:
        """Nothing is pending."""


def _place(arena: Arena, piece: Piece) -> memoryview:
    return arena.view(piece.entry.name)[piece.at_bytes : piece.at_bytes + piece.size_bytes]
