"""The end of a boot: the verdict is printed, and the reports are written, whatever went wrong."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from server import cli, outputs
from server.cache import cache_folder
from server.config.rules import finding
from server.findings import Outcome, outcome_of
from server.limits import limit_met
from server.live.termination import leave_message
from server.log import Log
from server.redact import redacted
from server.render.console import Console
from server.render.escape import visible
from server.render.files import write_report
from server.render.style import Style
from server.render.text import (
    render_candidates,
    render_ignored,
    render_summary,
    render_verdict,
)


def finish(log: Log, telling: cli.Telling) -> int:
    """Print the verdict, write the reports; returns the exit code. A bug in that is told too."""
    log.current = "verdict"
    try:
        _tell_verdict(log, telling)
    except Exception as error:
        bug, console = our_bug(error, log), Console(sys.stderr, Style())
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


def interrupted(number: int, log: Log) -> Outcome:
    """SD606: a signal ended the boot."""
    log.report.ended_by_signal = number
    message = f"{signal.Signals(number).name} arrived in phase {log.current}"
    return outcome_of("SD606", [finding("SD606", message)])


def failed(error: Exception, log: Log) -> Outcome:
    """SD613: a limit of the process was met, wherever that was; else SD608."""
    met = limit_met(error)
    if not met:
        return our_bug(error, log)
    return outcome_of("SD613", [finding("SD613", f"{met} in phase {log.current}")])


def our_bug(error: Exception, log: Log) -> Outcome:
    """SD608: told in one line; the traceback is saved."""
    message = f"{type(error).__name__} in phase {log.current}: {error}"
    import traceback  # for this one path

    trace = redacted("".join(traceback.format_exception(error)))
    path = cache_folder(os.environ) / f"crash-{os.getpid()}.txt"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    # Others may write in the folder, and a link there may lead to any file of this user.
    problem = "a link is in its place" if path.is_symlink() else write_report(path, trace)
    where = f"the traceback is in {path}" if problem is None else f"no traceback saved: {problem}"
    return outcome_of("SD608", [finding("SD608", message, fix=f"report this; {where}")])
