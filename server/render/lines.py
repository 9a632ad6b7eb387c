"""One line for each finding, and the verdict: for a glance, and for GitHub's annotations."""

from collections.abc import Callable

from server.findings import Finding, Severity
from server.render.console import Console, Output
from server.render.escape import MAX_TEXT, shorten, visible, word
from server.render.style import Style
from server.render.text import render_verdict
from server.report import Report

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


class Lines(Output):
    """Findings as `write` makes them, one a line; notes only when notes are asked for."""

    def __init__(self, console: Console, write: Callable[[Finding, Style], str]) -> None:
        """Tell everything to `console`."""
        super().__init__(console)
        self._write = write

    def finding(self, finding: Finding) -> None:
        """Tell one finding."""
        if finding.severity is not Severity.NOTE or self.console.style.verbose:
            self.console.line(self._write(finding, self.console.style))

    def verdict(self, report: Report) -> None:
        """Tell the verdict as the text has it."""
        self.console.line(render_verdict(report, self.console.style))


def concise_line(finding: Finding, style: Style) -> str:
    """Where, which rule, what is wrong, what to do: "config.json: SD201 name: ...; fix: ..."."""
    rule = style.paint_severity(finding.rule, finding.severity)
    weight = "" if finding.severity is Severity.ERROR else f" ({finding.severity.value})"
    fix = f"; fix: {_line(finding.fix)}" if finding.fix else ""
    return f"{_where(finding)}: {rule} {finding.name}{weight}: {_line(finding.message)}{fix}"


def annotation(finding: Finding, _style: Style) -> str:
    """A workflow command of GitHub Actions, which shows the finding beside its file.

    Its form and its escapes are those of
    https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts.
    """
    file = next((place.file for place in finding.locations if place.file), None)
    title = _property(f"{finding.rule} {finding.name}")
    place = f"file={_property(visible(file))}," if file else ""
    fix = f"\nfix: {_line(finding.fix)}" if finding.fix else ""
    message = _data(f"{_line(finding.message)}{fix}")
    return f"::{_COMMANDS[finding.severity]} {place}title={title}::{message}"


def _where(finding: Finding) -> str:
    """The first place of a finding: its file, else its flag or variable, else its role."""
    for place in finding.locations:
        return word(place.file or place.flag or place.role)
    return "draftgate"


def _line(text: str) -> str:
    return shorten(visible(text), MAX_TEXT)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
