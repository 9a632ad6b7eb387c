"""The page of a report: everything is in it, and no text of a file becomes markup."""

from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from server.findings import Check, CheckStatus, ExitCode, Finding, Location, Outcome, Severity
from server.render.html import report_html
from server.report import (
    DraftFacts,
    KvFacts,
    LedgerLine,
    MemoryFacts,
    Phase,
    PlanAnswer,
    PlanFacts,
    Report,
    SettingFacts,
    TargetFacts,
)
from tests.chromium import dump_dom

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "span", "i",
    "pre", "table", "tr", "th", "td",
}  # fmt: skip
HOSTILE = (
    "</title></style></td><script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"><a href='//evil.example'>x</a>"
    "\"'><svg onload=document.title='owned'>"
)
KV = KvFacts(1, 2, 3, 4, 5, 6, 7, 8, 9)


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def make_memory(text: str, limit_bytes: int = 900) -> MemoryFacts:
    lines = (LedgerLine(text, 600, 610, "n"), LedgerLine("unused", 300))
    return MemoryFacts(text, 1000, limit_bytes, text, lines, KV, 10, (text,))


def make_report(text: str) -> Report:
    """A report with `text` in every place that can hold one."""
    memory = make_memory(text)
    place = Location(text, text, text, text, {text: [text]}, text)
    report = Report(
        draft=DraftFacts(text, text, text, text, text, text, {text: text}),
        target=TargetFacts(text, text, text, text),
        settings={text: SettingFacts(text, text)},
        memory=memory,
        plan=PlanFacts((PlanAnswer(memory, True, 7),), text, True),
        self_test={text: text},
        phases=[Phase(text, 1.5)],
        not_done=[text],
    )
    found = Finding(text, text, Severity.ERROR, text, (place,), text, text, text, ExitCode.CONFIG)
    report.add(Outcome((found,), (Check(text, CheckStatus.FAIL),)))
    return report


def test_the_page_holds_the_verdict_the_ledger_and_the_findings() -> None:
    report = make_report("words")
    page = Page(report_html(report))
    for told in ("refused: 1 error; words; 0.00 s; exit 78", "error[words] words", "600", "+10"):
        assert told in page.text
    assert "KV block        3 tokens, 4 B\n" in page.text
    assert "fits, with requests of up to 8 tokens; the longest that fits is 7 tokens" in page.text
    assert ("style", "width:66.66%;background:#868e96") in page.attributes


def test_a_bill_above_the_limit_has_a_mark_where_the_limit_is() -> None:
    report = Report(memory=make_memory("x", limit_bytes=450))
    assert ("style", "left:50.00%") in Page(report_html(report)).attributes
    without = Page(report_html(Report(memory=make_memory("x"))))
    assert ("class", "limit") not in without.attributes


def check_inert(report: Report) -> None:
    page = Page(report_html(report))
    assert set(page.tags) <= ALLOWED
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")}
    assert not {"href", "src", "srcdoc", "action"} & names


def test_hostile_names_are_text() -> None:
    check_inert(make_report(HOSTILE))
    assert HOSTILE in Page(report_html(make_report(HOSTILE))).text


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet=st.sampled_from("<>\"'&/=; !-abonscript\x00\x1b\u202e\udc80"), max_size=60))
def test_no_text_becomes_markup(text: str) -> None:
    check_inert(make_report(text))
    report_html(make_report(text)).encode()


def test_an_empty_report_is_a_page_too() -> None:
    assert Page(report_html(Report())).tags.count("h2") == 0


def test_a_browser_runs_nothing_of_a_hostile_report(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_html(make_report(HOSTILE)))
    page = Page(dump_dom(path, tmp_path / "profile"))
    assert set(page.tags) <= ALLOWED | {"tbody"}
    assert "owned" in page.text
    assert "draftgate: refused: 1 error; </title>" in page.text


def test_a_browser_would_not_run_a_script_that_slipped_in(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    script = "<script>document.title = 'owned'</script></body>"
    path.write_text(report_html(make_report("x")).replace("</body>", script))
    dumped = dump_dom(path, tmp_path / "profile")
    assert script.removesuffix("</body>") in dumped
    assert "<title>draftgate: refused: " in dumped
