"""The boot: one visible list of phases, and the process around it."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from server import cli, gate, outputs, pairing
from server.findings import ExitCode, outcome_of
from server.interrupts import Interrupted, Interrupts
from server.live.life import Life
from server.log import Log, Refused
from server.options import Options
from server.render.console import Console
from server.render.style import Style
from server.render.text import render_settings, render_verdict
from server.report import NOT_LOADED, NOT_TOUCHED, Report
from server.run import Run
from server.seats import ALONE, Seat
from server.telling import failed, finish, interrupted

if TYPE_CHECKING:
    from server.admission import Admission
    from server.ending import Council
    from server.serve import Placed, Pooled

Work = Callable[[Life], object | None]


def boot(
    options: Options,
    log: Log,
    life: Life | None = None,
    seat: Seat = ALONE,
    council: "Council | None" = None,
) -> object | None:
    """Run every phase in order; what comes back holds the models and the pool.

    None when the boot ends at the gate (--check, --plan). Where `seat` is to start ranks, the
    pair and its device come back instead. Raises Refused when a phase refuses. `life` tells
    others; without one nobody is told.
    """
    life = life or Life(log, {})
    with log.phase("draft config"):
        found = gate.read_draft_config(options, log)
    with log.phase("servable"):
        servable = gate.refuse_unservable(found, log)
    if seat.speaks:
        outputs.refuse_unwritable(options, log)
    with log.phase("target config"):
        pair = pairing.read_target_config(servable, log)
    if servable.ends_with_configs:
        raise Refused

    from server import admission  # only now is there a header to read

    with log.phase("tensor headers"):
        headers = admission.read_tensor_headers(pair, log)
    if not (options.check or servable.refused):
        admission.require_weights(headers, log)
    admitted = admission.admit(headers, log)
    if log.report.refused:
        raise Refused
    if options.check and council is not None:
        council.meet()
    if options.check:
        return None
    if admitted is None:
        raise RuntimeError("nothing was refused, and nothing was admitted")
    # Pynvml is allowed from here on, and torch where the device or the peak asks for it.
    if options.plan:
        _plan(admitted, options, log)
        return None

    gc.enable()  # see server/__main__.py
    from server import serve

    if seat.tells_others:
        life.open_port(options)
    with log.phase("device"):
        placed = serve.place(admitted, options, log, seat)
    return _import_torch(placed, log) if seat.launches else prove(placed, log, life, council)


def _plan(admitted: "Admission", options: Options, log: Log) -> None:
    from server import planning

    with log.phase("plan"):
        planning.make_plan(admitted, options, log)


def _import_torch(placed: "Placed", log: Log) -> "Placed":
    """The launcher imports it once for all ranks, which are forked from it."""
    from server.memory.device import usable_torch

    with log.phase("import torch"):
        log.obtain(*usable_torch())
    return placed


def prove(placed: "Placed", log: Log, life: Life, council: "Council | None" = None) -> "Pooled":
    """The phases with torch. `council`: the other ranks, where there are several."""
    from server import loading, serve

    with loading.read_ahead(placed) as ahead:
        with log.phase("torch"):
            opened = serve.open_device(placed, log)
        life.meet(opened.placed.facts)
        if council is not None:
            with log.phase("ranks"):
                opened = serve.join(opened, council, log)
        with log.phase("load"):
            loaded = loading.load(opened, ahead, log)
    with log.phase("profile", announce=True):
        profiled = serve.profile(loaded, log)
    with log.phase("KV pool", announce=True):
        pooled = serve.allocate(profiled, log)
    with log.phase("self-test", announce=True):
        proven = serve.self_test(pooled, log)
    with log.phase("ledger", announce=True):
        return serve.reconcile(proven, log, council)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, boot, tell, hold. Returns the process's exit code."""
    parsed = cli.parse(sys.argv[1:] if argv is None else argv, os.environ)
    telling = parsed.telling
    if parsed.action is not cli.Action.BOOT and not parsed.outcome.refused:
        for warning in parsed.outcome.findings:
            Console(sys.stderr, Style()).finding(warning)
        Console(sys.stdout, Style()).line(cli.answer(parsed))
        return ExitCode.OK
    log = outputs.open_log(Report(settings=dict(parsed.settings)), telling)
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    run = Run(log, telling, parsed.options)
    ranks = parsed.options.tensor_parallel_size if parsed.options else 1
    if ranks > 1 or "WORLD_SIZE" in os.environ:
        from server.launch import as_rank  # few boots are by several ranks

        run = as_rank(run, parsed.outcome)
    log.tell(parsed.outcome)
    options = parsed.options
    if options is None:
        return _tell(run)

    def work(life: Life) -> object | None:
        log.console.line(render_settings(log.report, log.console.style))
        return boot(options, log, life, run.seat, run.council)

    return _boot_and_hold(run, work)


def _boot_and_hold(run: Run, work: Work) -> int:
    log, held = run.log, None
    life = Life(log, os.environ if run.seat.speaks else {})

    def overdue(number: int) -> int:
        log.tell(interrupted(number, log))
        code = _tell(run)
        life.end(render_verdict(log.report, Style()))
        return code

    interrupts = Interrupts(overdue)
    try:
        interrupts.listen()
        held = _work_or_tell(run, work, life)
        interrupts.defer()
    except Interrupted as signalled:
        interrupts.defer()
        log.tell(interrupted(signalled.number, log))
    # From here on a signal waits: the verdict is told whole, and the hold takes what came.
    if run.seat.launches and held is not None:
        code = _lead_ranks(run, interrupts, held)
    else:
        code = _tell(run)
    ends = render_verdict(log.report, Style())
    if held is not None and code == ExitCode.OK and run.holds and not run.seat.launches:
        life.ready()
        log.console.line("ready: holding models and KV pool; SIGTERM or SIGINT ends this process")
        name = signal.Signals(interrupts.wait()).name
        ends = f"{name}: models and KV pool released; exit 0"
        log.console.line(ends)
    life.end(ends)
    return code


def _tell(run: Run) -> int:
    """Tell the verdict; or end with the one that another rank tells."""
    if run.council is None:
        return finish(run.log, run.telling)
    return run.council.end(run.log, lambda: finish(run.log, run.telling))


def _lead_ranks(run: Run, interrupts: Interrupts, held: object) -> int:
    """Start the ranks, each of which goes on from here, and end as they do."""
    from server import launch, serve

    if not isinstance(held, serve.Placed):
        raise TypeError("there is nothing to give to the ranks")
    placed = held

    def go_on(own: Run) -> int:
        def work(life: Life) -> object:
            if own.seat.speaks:
                life.open_port(placed.options)
            return prove(serve.seated(placed, own.seat, own.log), own.log, life, own.council)

        return _boot_and_hold(own, work)

    log = run.log
    ended = launch.lead(run, interrupts, go_on)
    if ended.code is not None:
        return ended.code
    if ended.lost is None:
        log.tell(interrupted(interrupts.number or signal.SIGTERM, log))
    else:
        log.tell(outcome_of("SD609", [ended.lost]))
    return finish(log, run.telling)


def _work_or_tell(run: Run, work: Work, life: Life) -> object | None:
    """What the boot holds; None after a refusal or a bug of ours, which are told."""
    try:
        return work(life)
    except Refused:
        pass
    except Exception as error:  # a bug of ours, or of several ranks the end of another one
        if run.council is None or not run.council.explains(error, run.log):
            run.log.tell(failed(error, run.log))
    return None
