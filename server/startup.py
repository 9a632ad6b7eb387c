"""The boot: one visible list of phases, and the process around it."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from server import cli, gate, outputs, pairing
from server.cache import cache_folder
from server.config.rules import finding
from server.findings import ExitCode, Outcome, outcome_of
from server.interrupts import Interrupted, Interrupts
from server.live.life import Life
from server.live.termination import leave_message
from server.log import Log, Refused
from server.options import Options
from server.redact import redacted
from server.render.console import Console
from server.render.escape import visible
from server.render.files import write_report
from server.render.style import Style
from server.render.text import (
    render_candidates,
    render_ignored,
    render_settings,
    render_summary,
    render_verdict,
)
from server.report import NOT_LOADED, NOT_TOUCHED, Report


def boot(options: Options, log: Log, life: Life | None = None) -> object | None:
    """Run every phase in order; what comes back holds the models and the pool.

    None when the boot ends at the gate (--check). Raises Refused when a phase refuses. `life`
    tells others; without one nobody is told.
    """
    life = life or Life(log, {})
    with log.phase("draft config"):
        found = gate.read_draft_config(options, log)
    with log.phase("servable"):
        servable = gate.refuse_unservable(found, log)
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
    if options.check:
        return None
    if admitted is None:
        raise RuntimeError("nothing was refused, and nothing was admitted")

    # Pynvml is allowed from here on, and torch where the device or the peak asks for it.
    if options.plan:
        from server import planning

        with log.phase("plan"):
            planning.make_plan(admitted, options, log)
        return None

    gc.enable()  # see server/__main__.py
    from server import loading, serve

    life.open_port(options)
    with log.phase("device"):
        placed = serve.place(admitted, options, log)
    with loading.read_ahead(placed) as ahead:
        with log.phase("torch"):
            opened = serve.open_device(placed, log)
        life.meet(opened.placed.facts)
        with log.phase("load"):
            loaded = loading.load(opened, ahead, log)
    with log.phase("profile", announce=True):
        profiled = serve.profile(loaded, log)
    with log.phase("KV pool", announce=True):
        pooled = serve.allocate(profiled, log)
    with log.phase("self-test", announce=True):
        proven = serve.self_test(pooled, log)
    with log.phase("ledger", announce=True):
        return serve.reconcile(proven, log)


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
    log.tell(parsed.outcome)
    if parsed.options is None:
        return finish(log, telling)
    return _boot_and_hold(parsed.options, log, telling)


def finish(log: Log, telling: cli.Telling) -> int:
    """Print the verdict, write the reports; returns the exit code. A bug in that is told too."""
    log.current = "verdict"
    try:
        _tell_verdict(log, telling)
    except Exception as error:
        bug, console = _our_bug(error, log), Console(sys.stderr, Style())
        log.report.add(bug)
        console.finding(bug.findings[0])
        console.line(render_verdict(log.report, console.style))
        with suppress(Exception):  # what was written before has another exit code
            outputs.write_files(log, telling)
    return log.report.exit_code


def _tell_verdict(log: Log, telling: cli.Telling) -> None:
    report, console = log.report, log.console
    report.elapsed_s = log.elapsed_s()
    outputs.write_files(log, telling)
    log.output.verdict(report)
    if telling.output_format != "text" and log.output.console.lost is not None:
        console = Console(sys.stderr, console.style)
        report.add(outputs.unwritable(Path("standard output"), log.output.console.lost))
        console.finding(report.findings[-1])
    if report.plan is not None:
        from server.render.plan import render_plan

        console.line(render_plan(report.plan, console.style))
    elif report.memory is not None:
        from server.render.ledger import render_memory

        console.line(render_memory(report.memory, console.style))
    if not report.refused:
        console.line(render_summary(report, console.style))
    console.line(render_ignored(report, console.style))
    console.line(render_candidates(report, console.style))
    console.line(render_verdict(report, console.style))
    if problem := leave_message(report, telling.termination_log):
        console.line(f"the termination message cannot be written: {visible(problem)}")


def _boot_and_hold(options: Options, log: Log, telling: cli.Telling) -> int:
    held: object | None = None
    life = Life(log, os.environ)

    def overdue(number: int) -> int:
        log.tell(_interrupted(Interrupted(number), log))
        code = finish(log, telling)
        life.end(render_verdict(log.report, Style()))
        return code

    interrupts = Interrupts(overdue)
    try:
        interrupts.listen()
        held = _boot_or_tell(options, log, life)
        interrupts.defer()
    except Interrupted as interrupted:
        interrupts.defer()
        log.tell(_interrupted(interrupted, log))
    # From here on a signal waits: the verdict is told whole, and the hold takes what came.
    code = finish(log, telling)
    ends = render_verdict(log.report, Style())
    if held is not None and code == ExitCode.OK and not options.exit_after_boot:
        life.ready()
        log.console.line("ready: holding models and KV pool; SIGTERM or SIGINT ends this process")
        name = signal.Signals(interrupts.wait()).name
        ends = f"{name}: models and KV pool released; exit 0"
        log.console.line(ends)
    life.end(ends)
    return code


def _boot_or_tell(options: Options, log: Log, life: Life) -> object | None:
    """What the boot holds; None after a refusal or a bug of ours, which are told."""
    try:
        log.console.line(render_settings(log.report, log.console.style))
        return boot(options, log, life)
    except Refused:
        pass
    except Exception as error:  # a bug of ours: told in one line, the rest saved
        log.tell(_our_bug(error, log))
    return None


def _interrupted(interrupted: Interrupted, log: Log) -> Outcome:
    log.report.ended_by_signal = interrupted.number
    message = f"{interrupted} arrived in phase {log.current}"
    return outcome_of("SD606", [finding("SD606", message)])


def _our_bug(error: Exception, log: Log) -> Outcome:
    message = f"{type(error).__name__} in phase {log.current}: {error}"
    import traceback  # for this one path

    trace = redacted("".join(traceback.format_exception(error)))
    path = cache_folder(os.environ) / f"crash-{os.getpid()}.txt"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    problem = write_report(path, trace)
    where = f"the traceback is in {path}" if problem is None else f"no traceback saved: {problem}"
    return outcome_of("SD608", [finding("SD608", message, fix=f"report this; {where}")])
