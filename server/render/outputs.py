"""The formats beside text, by name. Each is imported only where it is asked for."""

from collections.abc import Callable, Mapping

from server.findings import Rule
from server.render.console import Console, Output
from server.report import Report


class Document(Output):
    """A format that is one document, written when the verdict is known."""

    def __init__(self, console: Console, write: Callable[[Report], str]) -> None:
        """Tell `console` what `write` makes of the report."""
        super().__init__(console)
        self._write = write

    def verdict(self, report: Report) -> None:
        """Write the document."""
        self.console.line(self._write(report))


def output_of(name: str, console: Console, rules: Mapping[str, Rule]) -> Output:
    """The output for "concise" or a value of --output-format but text. `rules` are by id."""
    if name == "jsonl":
        from server.render.jsonl import JsonLines

        return JsonLines(console)
    if name in ("concise", "github"):
        from server.render.lines import Lines, annotation, concise_line

        return Lines(console, concise_line if name == "concise" else annotation)
    return Document(console, lambda report: document(name, report, rules))


def document(name: str, report: Report, rules: Mapping[str, Rule]) -> str:
    """The report as "json", "junit" or "html"."""
    if name == "junit":
        from server.render.junit import report_junit

        return report_junit(report, rules)
    if name == "html":
        from server.render.html import report_html

        return report_html(report)
    from server.render.json import report_json

    return report_json(report)
