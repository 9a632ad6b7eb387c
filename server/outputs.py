"""Where a boot's outcome goes beside the console: standard output, and the files asked for."""

import os
import sys
from pathlib import Path

from server.cli import Telling
from server.config.rules import RULES, finding
from server.findings import Location, Outcome, outcome_of
from server.flags import BY_FIELD
from server.log import Log
from server.options import Options
from server.render.console import Console
from server.render.files import why_unwritable, write_report
from server.render.style import style_of
from server.report import Report

# The report is last: it tells what is wrong with the others.
_FILES = (("report_html", "html"), ("junit_file", "junit"), ("report_file", "json"))


def open_log(report: Report, telling: Telling) -> Log:
    """The log of a boot: text to standard error, any other format to standard output."""
    is_text = telling.output_format == "text"
    stream = sys.stderr if is_text else sys.stdout
    console = Console(stream, style_of(stream, os.environ, telling.color, telling.verbose))
    if is_text and not telling.concise:
        return Log(report, console)
    from server.render.outputs import output_of  # text has no use for it

    name = "concise" if is_text else telling.output_format
    return Log(report, Console(None, console.style), output_of(name, console, RULES))


def refuse_unwritable(options: Options, log: Log) -> None:
    """Tell SD707 for each file that could not be written, before a load of many minutes."""
    for field, _ in _FILES:
        path: Path | None = getattr(options, field)
        if path is not None:
            log.tell(unwritable(path, why_unwritable(path), field))


def write_files(log: Log, telling: Telling) -> None:
    """Write each file that was asked for; tell SD707 for one that cannot be, unless it was told."""
    for field, name in _FILES:
        path: Path | None = getattr(telling, field)
        if path is None:
            continue
        from server.render.outputs import document

        found = [known for known in log.report.findings if known.rule == "SD707"]
        told = [place.value for known in found for place in known.locations]
        problem = write_report(path, document(name, log.report, RULES))
        if problem is not None and str(path) not in told:
            log.tell(unwritable(path, problem, field))


def unwritable(path: Path, problem: str | None, field: str = "output_format") -> Outcome:
    """SD707 for the `path` that the flag of `field` names; nothing where there is no problem."""
    if problem is None:
        return outcome_of("SD707", ())
    message = f"the report cannot be written to {path}: {problem}"
    where = Location("flag", flag=BY_FIELD[field].name, value=str(path))
    return outcome_of("SD707", [finding("SD707", message, where)])
