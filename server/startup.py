"""The boot: one visible list of phases, and the process around it."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from server import cli, gate, pairing
from server.cache import cache_folder
from server.config.rules import finding
from server.findings import ExitCode, Outcome, outcome_of
from server.interrupts import Interrupted, Interrupts
from server.log import Log, Refused
from server.options import Options
from server.render.console import Console
from server.render.files import why_unwritable, write_report
from server.render.style import style_of
from server.render.text import (
    render_candidates,
    render_ignored,
    render_settings,
    render_summary,
    render_verdict,
)
from server.report import NOT_LOADED, NOT_TOUCHED, Report
from server.run import Run
from server.seats import ALONE, Seat

if TYPE_CHECKING:
    from server.ending import Council
    from server.serve import Placed, Pooled


def boot(
    options: Options, log: Log, seat: Seat = ALONE, council: "Council | None" = None
) -> object | None:
    """Run every phase in order; what comes back holds the models and the pool.

    None when the boot ends at the gate (--check). Where `seat` is to start ranks, the pair and
    its device come back instead. Raises Refused when a phase refuses.
    """
    with log.phase("draft config"):
        found = gate.read_draft_config(options, log)
    with log.phase("servable"):
        servable = gate.refuse_unservable(found, log)
    if options.report_file is not None and seat.speaks:
        log.tell(_unwritable(options.report_file, why_unwritable(options.report_file)))
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
    if options.check:
        if council is not None:
            council.meet()
        return None
    if admitted is None:
        raise RuntimeError("nothing was refused, and nothing was admitted")

    gc.enable()  # see server/__main__.py
    from server import serve  # pynvml and torch are allowed from here on

    with log.phase("device"):
        placed = serve.place(admitted, options, log, seat)
    if not placed.seat.launches:
        return prove(placed, log, council)
    from server.memory.device import load_torch

    with log.phase("import torch"):
        log.obtain(*load_torch())
        return placed


def prove(placed: "Placed", log: Log, council: "Council | None" = None) -> "Pooled":
    """The phases with torch. `council`: the other ranks, where there are several."""
    from server import loading, serve

    with loading.read_ahead(placed) as ahead:
        with log.phase("torch"):
            opened = serve.open_device(placed, log)
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
    quiet = telling.output_format == "json"
    style = style_of(sys.stderr, os.environ, telling.color, telling.verbose)
    console = Console(None if quiet else sys.stderr, style)
    if parsed.action is not cli.Action.BOOT and not parsed.outcome.refused:
        Console(sys.stdout, style).line(cli.answer(parsed))
        return ExitCode.OK
    log = Log(Report(settings=dict(parsed.settings)), console)
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

    def work() -> object | None:
        log.console.line(render_settings(log.report, style))
        return boot(options, log, run.seat, run.council)

    return _boot_and_hold(run, work)


def finish(log: Log, telling: cli.Telling) -> int:
    """Print the verdict, write the reports; returns the exit code."""
    report, console = log.report, log.console
    report.elapsed_s = log.elapsed_s()
    as_json = telling.output_format == "json"
    if as_json or telling.report_file is not None:
        from server.render.json import report_json

        if telling.report_file is not None and "SD707" not in {f.rule for f in report.findings}:
            problem = write_report(telling.report_file, report_json(report))
            log.tell(_unwritable(telling.report_file, problem))
        if as_json:
            out = Console(sys.stdout, console.style)
            out.line(report_json(report))
            if out.lost is not None:
                console = Console(sys.stderr, console.style)
                log.report.add(_unwritable(Path("standard output"), out.lost))
                console.finding(report.findings[-1])
    if report.memory is not None:
        from server.render.ledger import render_memory

        console.line(render_memory(report.memory, console.style))
    if not report.refused:
        console.line(render_summary(report, console.style))
    console.line(render_ignored(report, console.style))
    console.line(render_candidates(report, console.style))
    console.line(render_verdict(report, console.style))
    return report.exit_code


def _unwritable(path: Path, problem: str | None) -> Outcome:
    message = f"the report cannot be written to {path}: {problem}"
    return outcome_of("SD707", [finding("SD707", message)] if problem else [])


def _boot_and_hold(run: Run, work: Callable[[], object | None]) -> int:
    log, held = run.log, None
    interrupts = Interrupts()
    try:
        interrupts.listen()
        held = _boot_or_tell(run, work)
        interrupts.defer()
    except Interrupted as interrupted:
        interrupts.defer()
        log.tell(_interrupted(interrupted.number, log))
    # From here on a signal waits: the verdict is told whole, and the hold takes what came.
    if run.seat.launches and held is not None:
        return _lead_ranks(run, interrupts, held)
    code = _tell(run)
    if held is not None and code == ExitCode.OK and run.holds:
        log.console.line("ready: holding models and KV pool; SIGTERM or SIGINT ends this process")
        name = signal.Signals(interrupts.wait()).name
        log.console.line(f"{name}: models and KV pool released; exit 0")
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
        def work() -> object:
            return prove(serve.seated(placed, own.seat, own.log), own.log, own.council)

        return _boot_and_hold(own, work)

    log = run.log
    ended = launch.lead(run, interrupts, go_on)
    if ended.code is not None:
        return ended.code
    if ended.lost is None:
        log.tell(_interrupted(interrupts.number or signal.SIGTERM, log))
    else:
        log.tell(outcome_of("SD609", [ended.lost]))
    return finish(log, run.telling)


def _boot_or_tell(run: Run, work: Callable[[], object | None]) -> object | None:
    """What the boot holds; None after a refusal or a bug of ours, which are told."""
    log = run.log
    try:
        return work()
    except Refused:
        pass
    except Exception as error:  # a bug of ours, or of several ranks the end of another one
        if run.council is None or not run.council.explains(error, log):
            log.tell(_our_bug(error, log))
    return None


def _interrupted(number: int, log: Log) -> Outcome:
    log.report.ended_by_signal = number
    message = f"{signal.Signals(number).name} arrived in phase {log.current}"
    return outcome_of("SD606", [finding("SD606", message)])


def _our_bug(error: Exception, log: Log) -> Outcome:
    message = f"{type(error).__name__} in phase {log.current}: {error}"
    import traceback  # for this one path

    trace = "".join(traceback.format_exception(error))
    path = cache_folder(os.environ) / f"crash-{os.getpid()}.txt"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    problem = write_report(path, trace)
    where = f"the traceback is in {path}" if problem is None else f"no traceback saved: {problem}"
    return outcome_of("SD608", [finding("SD608", message, fix=f"report this; {where}")])
