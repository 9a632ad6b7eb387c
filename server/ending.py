"""How the ranks of one boot agree on one verdict: who tells it, and with which exit code all end.

They meet in a key-value store of torch's: a file that the launcher's ranks share, or the store
that `torchrun` offers. The first rank with an error claims the verdict and tells it; where there
is none, rank 0 does. The others say nothing and end with the same code.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from server.config.rules import finding
from server.findings import ExitCode, Finding, Severity, outcome_of
from server.kin import has_ended, own_mark
from server.log import Log
from server.render.console import Console
from server.seats import RankLost, Seat, reaching_others

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Connect = Callable[[], "Store"]

_VERDICT, _CODE, _HERE, _GATE, _LEFT = "verdict", "code", "here", "gate", "left"
_PROCESS, BOOTING, HOLDING = "process", "booting", "holding"
_LOOK_S = 0.02
# Rank 0 writes its report; on another host the import of torch may take its time.
_PATIENCE_S = 300.0
# What the launcher needs to see that a process ended.
_CLAIM_S = 2.0
_LEAVE_S = 5.0


class Ended(Exception):
    """Another rank has told the verdict, or is about to."""


class Council:
    """One rank's place among the others. `connect` opens the store, at the first need."""

    def __init__(self, seat: Seat, connect: Connect) -> None:
        """Connect to nothing yet."""
        self.seat = seat
        self._connect = connect
        self._store: Store | None = None
        self._tried = False
        self._claimed: bool | None = None
        self._met = False
        self.voices: list[Voice] = []

    def speak(self, may: bool) -> None:
        """Let this rank speak on every console that it has from now on, or on none."""
        for voice in self.voices:
            voice.speak(may)

    @property
    def store(self) -> "Store":
        """The store. Raises RankLost where it cannot be had."""
        if self._store is None and self._tried:
            raise RankLost("the other ranks were not reached")
        if self._store is None:
            self._tried = True  # what was interrupted is not begun again
            with reaching_others():
                self._store = self._connect()
        return self._store

    def meet(self) -> None:
        """Wait until every rank is here. Raises Ended when one tells the verdict instead."""
        with reaching_others():
            if self.seat.speaks:
                self.store.set(_GATE, "0")
            self.put(_PROCESS, own_mark())
            self.put(_HERE, "yes")
            self._wait([f"{_HERE}/{rank}" for rank in range(self.seat.world)])
        self._met = True

    def put(self, key: str, text: str) -> None:
        """Leave `text` for the others. Raises RankLost."""
        with reaching_others():
            self.store.set(f"{key}/{self.seat.rank}", text)

    def take(self, key: str, rank: int) -> str:
        """What `rank` put there. Raises RankLost, and Ended when the verdict is told before."""
        name = f"{key}/{rank}"
        with reaching_others():
            self._wait([name])
            return str(self.store.get(name).decode())

    def leaves(self, what: str) -> None:
        """Say that this rank is to end, and is not lost: BOOTING and HOLDING end apart."""
        if self.seat.external and self._met:
            with suppress(RuntimeError, RankLost):
                self.store.add(f"{what}/{self.seat.rank}", 1)  # is there once this returns

    def lost(self, what: str) -> int | None:
        """The rank that is gone and has not said that it would be; None where none is known.

        Torchrun waits for a process that died before it signals the others. A rank that ends by
        itself or by a signal says so first, so that it is never taken for lost.
        """
        if not (self.seat.external and self._met):
            return None
        with suppress(RuntimeError, RankLost):
            for rank in set(range(self.seat.world)) - {self.seat.rank}:
                gone = has_ended(self.store.get(f"{_PROCESS}/{rank}").decode())
                if gone and not self.store.check([f"{what}/{rank}"]):
                    return rank
        return None

    def lost_before_verdict(self) -> Finding | None:
        """SD609 where a signal came because another rank was lost in the boot."""
        return self._of_lost(self.lost(BOOTING))

    def lost_while_held(self) -> Finding | None:
        """The same after the verdict. The first rank that is left speaks, since no other will."""
        lost = self.lost(HOLDING)
        self.leaves(HOLDING)
        if lost is not None:
            self._claimed = self.seat.rank == (0 if lost else 1)
            self.speak(self._claimed)
        return self._of_lost(lost)

    def _of_lost(self, rank: int | None) -> Finding | None:
        if rank is None:
            return None
        return finding("SD609", f"rank {rank} of {self.seat.world} ended without a word")

    def claim(self) -> bool:
        """True for the one rank that is to tell the verdict; the answer stays the same.

        Before the ranks have met, each has judged the same files by itself: what rank 0 refuses
        is rank 0's to tell. A rank that cannot ask the others speaks.
        """
        if self._claimed is None:
            try:
                self._claimed = self._first()
            except Ended:
                self._claimed = False
            except (RuntimeError, RankLost):
                self._claimed = True
        return self._claimed

    def explains(self, error: Exception, log: Log) -> bool:
        """True when `error` is the end of another rank; told where nobody else does.

        A rank that refuses has claimed the verdict before it ends. The launcher sees how one was
        killed, and has a moment to claim; under torchrun nobody else will tell it.
        """
        if isinstance(error, Ended):
            self._claimed = False
        elif isinstance(error, RankLost):
            self._let_others_claim(0.0 if self.seat.external else _CLAIM_S)
            if self.claim():
                message = f"rank {self.seat.rank} of {self.seat.world} lost the others: {error}"
                log.tell(outcome_of("SD609", [finding("SD609", message)]))
        else:
            return False
        return True

    def end(self, log: Log, finish: Callable[[], int]) -> int:
        """Tell the verdict with `finish` where it is this rank's to tell; the exit code of all.

        A signal comes to every rank: rank 0 tells it, unless it does not hear.
        """
        self.leaves(BOOTING)
        if log.report.ended_by_signal is not None and not self.seat.speaks:
            self._let_others_claim(_CLAIM_S)
        has_word = self.seat.speaks or log.report.exit_code != ExitCode.OK
        if not (has_word and self.claim()):
            code = self.code()
            self._leave()
            return int(ExitCode.TEMPFAIL) if code is None else code
        self.speak(True)
        code = finish()
        self._publish(code)
        self._leave()
        return code

    def hears_another(self) -> bool:
        """True once another rank tells the verdict, after which nothing may be printed."""
        if self._claimed is not None or (self.seat.external and not self._met):
            return False
        with suppress(RuntimeError, RankLost):
            return bool(self.store.check([_VERDICT]))
        return False

    def _let_others_claim(self, patience_s: float) -> None:
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s and not self.hears_another():
            time.sleep(_LOOK_S)

    def _publish(self, code: int) -> None:
        with suppress(RuntimeError, RankLost):
            if self.seat.external and self.seat.speaks and code:
                self.store.set(_GATE, str(code))
            self.store.set(_CODE, str(code))

    def code(self, patience_s: float = _PATIENCE_S) -> int | None:
        """The published exit code; None when it does not come in time."""
        end_s = time.monotonic() + patience_s
        try:
            while not self.store.check([_CODE]):
                if time.monotonic() >= end_s:
                    return None
                time.sleep(_LOOK_S)
            return int(self.store.get(_CODE))
        except (RuntimeError, RankLost):
            return None

    def _leave(self) -> None:
        """Rank 0 may hold the store for the others: it waits until they need it no more."""
        if not self.seat.external:
            return
        end_s = time.monotonic() + _LEAVE_S
        with suppress(RuntimeError, RankLost):
            left = self.store.add(_LEFT, 1)
            while self.seat.speaks and left < self.seat.world and time.monotonic() < end_s:
                time.sleep(_LOOK_S)
                left = self.store.add(_LEFT, 0)

    def _first(self) -> bool:
        if self.seat.external and not self._met:
            if self.seat.speaks:
                return True
            self._wait([_GATE])
            if self.store.get(_GATE) != b"0":
                return False
        return bool(self.store.add(_VERDICT, 1) == 1)

    def _wait(self, keys: list[str]) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while not self.store.check(keys):
            if self.store.check([_CODE]):
                raise Ended
            if time.monotonic() > end_s:
                raise RankLost(f"not all ranks are there after {_PATIENCE_S:.0f} s")
            time.sleep(_LOOK_S)


class Voice(Console):
    """A console of one rank of several: rank 0's tells what all do, an error is told once."""

    def __init__(self, council: Council, console: Console) -> None:
        """Speak like `console`, as far as `council` lets this rank speak."""
        stream = console.stream if council.seat.speaks else None
        super().__init__(stream, console.style)
        self._council, self._console = council, console
        self.lost = console.lost
        council.voices.append(self)

    def finding(self, finding: Finding) -> None:
        """Print a finding; an error claims the verdict first, or ends all that is printed."""
        if finding.severity is Severity.ERROR:
            self._council.speak(self._council.claim())
        super().finding(finding)

    def line(self, text: str) -> None:
        """Print `text`, unless another rank tells the verdict meanwhile: it is the last word."""
        if self._stream is not None and self._council.hears_another():
            self._council.speak(False)
        super().line(text)

    def speak(self, may: bool) -> None:
        """Speak from now on, or say nothing more."""
        self._stream = self._console.stream if may else None
