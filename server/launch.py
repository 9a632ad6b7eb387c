"""A boot by several ranks: which one this process is, and the launcher that starts them."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from server.cli import Telling
from server.config.rules import finding
from server.ending import Connect, Council, Voice
from server.findings import Finding, Location, Outcome
from server.interrupts import Interrupts
from server.limits import limit_met
from server.ranks import Ranks, torchrun_store
from server.render.console import SILENT, Console
from server.run import Run
from server.seats import Seat, read_seat


def as_rank(run: Run, refused: Outcome) -> Run:
    """The run with its seat; under torchrun with the other ranks, of which only one speaks."""
    ranks = run.options.tensor_parallel_size if run.options else None
    try:
        seat = read_seat(os.environ, ranks)
    except ValueError:  # it is refused, and every process tells it
        return run
    mismatch = any(found.rule == "SD709" for found in refused.findings)
    if mismatch and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        # Without torchrun rank 0 would wait for as many others, and there may be none.
        return run if seat.speaks else _silent(run)
    run = replace(run, seat=seat)
    return _in_council(run, Council(seat, torchrun_store)) if seat.external else run


def _silent(run: Run) -> Run:
    run.log.console = Console(None, run.log.console.style)
    run.log.output = SILENT
    return replace(run, telling=Telling())


class LedEnd(NamedTuple):
    """How the ranks ended. `code` None: nobody has told a verdict; `lost` says of whom it is."""

    code: int | None
    lost: Finding | None = None


def lead(run: Run, interrupts: Interrupts, go_on: Callable[[Run], int]) -> LedEnd:
    """Start the ranks, each of which goes on, and wait until the last one has ended."""
    seat, run.log.current = run.seat, "ranks"
    try:
        ranks = Ranks(seat.world)
        council = Council(seat, ranks.connect)
        ranks.start(lambda own, connect: go_on(_started(run, own, connect)), interrupts)
    except OSError as error:
        return LedEnd(None, _not_started(seat.world, error))
    lost = ranks.watch(interrupts, council, run.holds)
    run.log.report.not_done.clear()  # what the ranks have done went with them
    code = council.code(0)
    if lost is None and code is None and not council.claim():
        code = 128 + (interrupts.number or signal.SIGKILL)  # ended in the midst of its verdict
    if lost is None:
        return LedEnd(code)
    where = Location("process", value=lost.pid, source=f"rank {lost.rank}, its process id")
    found = _lost(f"rank {lost.rank} of {seat.world} {lost.how}", where)
    if code or council.claim():
        return LedEnd(code, found)
    # The verdict was told, or half told by the rank that was lost: there is no second one.
    console = Console(sys.stderr, run.log.console.style)
    console.finding(found)
    console.line(f"rank lost: models and KV pool released; exit {int(found.exit_code)}")
    return LedEnd(int(found.exit_code))


def _not_started(world: int, error: OSError) -> Finding:
    """SD613 where a limit of the process is in the way, else SD609."""
    met = limit_met(error)
    if not met and isinstance(error, BlockingIOError):  # of fork
        met = "no more processes can be started"
    if met:
        return finding("SD613", f"{met}, which {world} ranks need")
    return _lost(f"{world} ranks could not be started: {error}")


def _lost(message: str, *where: Location) -> Finding:
    return finding("SD609", message, *where)


def _started(run: Run, seat: Seat, connect: Connect) -> Run:
    return _in_council(replace(run, seat=seat), Council(seat, connect))


def _in_council(run: Run, council: Council) -> Run:
    log = run.log
    log.console = Voice(council, log.console)
    if log.output is not SILENT:
        log.output.console = Voice(council, log.output.console)
    return replace(run, council=council)
