"""The process around a boot: the command line, signals, the verdict, the hold, the ranks."""

import os
import signal
import sys
from collections.abc import Callable, Sequence

from server import cli, outputs
from server.findings import ExitCode, Outcome, outcome_of
from server.interrupts import Interrupted, Interrupts
from server.live.life import Life
from server.log import Refused
from server.render.console import Console
from server.render.style import Style
from server.render.text import render_settings, render_verdict
from server.report import NOT_LOADED, NOT_TOUCHED, Report
from server.run import Run
from server.startup import boot, prove
from server.telling import failed, finish, interrupted

Work = Callable[[Life], object | None]


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
        log.tell(_why_signalled(run, number))
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
        log.tell(_why_signalled(run, signalled.number))
    # From here on a signal waits: the verdict is told whole, and the hold takes what came.
    leads = run.seat.launches and held is not None
    code = _lead_ranks(run, interrupts, held) if leads else _tell(run)
    holds = run.holds and held is not None and code == ExitCode.OK and not leads
    ends = render_verdict(log.report, Style())
    if holds:
        code, ends = _hold(run, life, interrupts)
    life.end(ends)
    interrupts.close()
    return code


def _why_signalled(run: Run, number: int) -> Outcome:
    """SD609 where torchrun signals because another rank was lost, else SD606."""
    lost = None if run.council is None else run.council.lost_before_verdict()
    return interrupted(number, run.log) if lost is None else outcome_of("SD609", (lost,))


def _hold(run: Run, life: Life, interrupts: Interrupts) -> tuple[int, str]:
    """Hold what is loaded until a signal comes; the exit code, and how it ended in one line."""
    console, council = run.log.console, run.council
    life.ready()
    console.line("ready: holding models and KV pool; SIGTERM or SIGINT ends this process")
    name, code = signal.Signals(interrupts.wait()).name, ExitCode.OK
    if council is not None and (lost := council.lost_while_held()) is not None:
        name, code = "rank lost", lost.exit_code
        console.finding(lost)
    ends = f"{name}: models and KV pool released; exit {int(code)}"
    console.line(ends)
    return code, ends


def _tell(run: Run) -> int:
    """Tell the verdict; or end with the one that another rank tells."""
    if run.council is None:
        return finish(run.log, run.telling)
    return run.council.end(run.log, lambda: finish(run.log, run.telling))


def _lead_ranks(run: Run, interrupts: Interrupts, held: object | None) -> int:
    """Start the ranks, each of which goes on from here, and end as they do."""
    from server import launch, placing

    if not isinstance(placed := held, placing.Placed):
        raise TypeError("there is nothing to give to the ranks")

    def go_on(own: Run) -> int:
        def work(life: Life) -> object:
            if own.seat.tells_others:
                life.open_port(placed.options)
            return prove(placing.seated(placed, own.seat, own.log), own.log, life, own.council)

        return _boot_and_hold(own, work)

    log = run.log
    ended = launch.lead(run, interrupts, go_on)
    if ended.code is not None:
        return ended.code
    if ended.lost is None:
        log.tell(interrupted(interrupts.number or signal.SIGTERM, log))
    else:
        log.tell(outcome_of(ended.lost.rule, [ended.lost]))
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
