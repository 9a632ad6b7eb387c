"""The report of a boot or a plan as one HTML page: no script, no link, nothing fetched.

Every text from a file, a path or a flag is escaped (`server/render/markup.py`), and the page's own
policy forbids scripts and requests, should an escape ever be missed.
"""

from collections.abc import Sequence

from server.findings import Finding, Location
from server.render.escape import show
from server.render.ledger import exact, key_of, kv_lines, ledger_rows, size
from server.render.markup import Html, joined, table, tag
from server.render.plan import smallest, verdict
from server.render.style import Style
from server.render.text import render_verdict
from server.report import LedgerLine, MemoryFacts, Report

_COLORS = ("#868e96", "#4263eb", "#0c8599", "#e8590c", "#c2255c", "#9c36b5", "#5c940d", "#2f9e44")
_UNUSED = "#e9ecef;color:#495057"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}h3{font-size:1rem;margin-bottom:.3rem}
table{border-collapse:collapse;margin:.5rem 0}
th,td{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top;overflow-wrap:anywhere}
td:first-child{white-space:nowrap}
.numbers td+td+td{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{display:flex;position:relative;height:2rem;border:1px solid #495057;margin:.8rem 0 .4rem}
.bar span{min-width:2px;overflow:hidden;color:#fff;padding-left:2px;box-sizing:border-box}
.limit{position:absolute;top:-6px;bottom:-6px;border-left:3px solid #c92a2a}
.key{display:inline-block;width:.9rem;height:.9rem;margin-right:.4rem}
.legend span{margin-right:1.2rem;white-space:nowrap}
.error,.warning,.note{border-left:4px solid #c92a2a;padding-left:.8rem;margin:1rem 0}
.warning{border-color:#f08c00}.note{border-color:#868e96}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_html(report: Report) -> str:
    """The whole report as one page, without a newline at its end."""
    heading = render_verdict(report, Style())
    body = tag(
        "body",
        tag("h1", heading),
        _inputs(report),
        _settings(report),
        _section("Findings", *(_finding(found) for found in report.findings)),
        *_memories(report),
        _section("Self-test", _self_test(report)),
        _section("Phases", table((), [(p.name, f"{p.ms:.1f} ms") for p in report.phases])),
    )
    head = tag("head", *_head(heading))
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>'


def _head(heading: str) -> tuple[Html, ...]:
    return (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Html('<meta name="viewport" content="width=device-width">'),
        tag("title", f"draftgate: {heading}"),
        Html(f"<style>{_STYLE}</style>"),
    )


def _section(title: str, *parts: Html) -> Html:
    """A titled part of the page; nothing when all of it is empty."""
    inner = joined(*parts)
    return joined(tag("h2", title), inner) if inner else Html("")


def _inputs(report: Report) -> Html:
    rows = []
    if report.target is not None:
        target = report.target
        rows.append(("target", target.path or target.asked, target.architecture or ""))
    if report.draft is not None:
        draft = report.draft
        kind = " ".join(filter(None, (draft.family, draft.schema, draft.layout)))
        rows.append(("draft", draft.path or draft.asked, kind))
    return table((), rows)


def _settings(report: Report) -> Html:
    changed = [(n, s) for n, s in report.settings.items() if s.source != "default"]
    rows = [(name, show(setting.value), setting.source) for name, setting in changed]
    return _section("Settings", table((), rows))


def _finding(found: Finding) -> Html:
    severity = found.severity.value
    told = (("why", found.why), ("fix", found.fix), ("docs", found.docs))
    return tag(
        "div",
        tag("h3", f"{severity}[{found.rule}] {found.name}"),
        tag("p", found.message),
        table((), [_place(place) for place in found.locations]),
        table((), [(label, text) for label, text in told if text]),
        class_=severity,
    )


def _place(place: Location) -> tuple[str, ...]:
    """Role, file, pointer or flag, value, and where the value came from."""
    value = show(place.value) if place.has_value else ""
    return (
        place.role,
        place.file or "",
        place.pointer or place.flag or "",
        value,
        place.source or "",
    )


def _memories(report: Report) -> list[Html]:
    if report.plan is not None:
        parts = [_memory(one.memory, tag("p", verdict(one))) for one in report.plan.answers]
        return [*parts, tag("p", smallest(report.plan))]
    return [] if report.memory is None else [_memory(report.memory, Html(""))]


def _memory(memory: MemoryFacts, remark: Html) -> Html:
    limits = (
        f"total {exact(memory.total_bytes)}; limit {exact(memory.limit_bytes)}, "
        f"utilization {memory.utilization} of the total"
    )
    head, *rows = ledger_rows(memory)
    unexplained = memory.unexplained_bytes
    notes = [] if unexplained is None else [f"not explained: {exact(unexplained)}"]
    return _section(
        f"Memory of {memory.device}",
        tag("p", limits),
        _bar(memory),
        _legend(memory.ledger),
        table(head, rows, class_="numbers"),
        *(tag("pre", line) for line in (kv_lines(memory.kv).split("\n") if memory.kv else ())),
        remark,
        *(tag("p", note) for note in (*notes, *memory.notes)),
    )


def _bar(memory: MemoryFacts) -> Html:
    """The billed lines side by side; where they exceed the limit, a mark shows where it is."""
    billed = sum(line.billed_bytes for line in memory.ledger)
    if not billed:
        return Html("")
    segments = [
        _segment(at, memory.ledger, _percent(line.billed_bytes, billed))
        for at, line in enumerate(memory.ledger)
        if line.billed_bytes
    ]
    if memory.limit_bytes < billed:
        place = f"left:{_percent(memory.limit_bytes, billed)}"
        segments.append(tag("i", class_="limit", style=place, title="limit"))
    return tag("div", *segments, class_="bar", role="img", aria_label="the billed lines as a bar")


def _segment(at: int, ledger: Sequence[LedgerLine], width: str) -> Html:
    """One line of the bar, with its key and, where it is pointed at, its size."""
    told = f"{ledger[at].line} {size(ledger[at].billed_bytes)}"
    look = f"width:{width};background:{_color(at, ledger)}"
    return tag("span", key_of(at), title=told, style=look)


def _legend(ledger: Sequence[LedgerLine]) -> Html:
    entries = [
        tag(
            "span",
            tag("i", class_="key", style=f"background:{_color(at, ledger)}"),
            f"{key_of(at)} {line.line} {size(line.billed_bytes)}",
        )
        for at, line in enumerate(ledger)
        if line.billed_bytes
    ]
    return tag("p", *entries, class_="legend")


def _color(at: int, ledger: Sequence[LedgerLine]) -> str:
    """A colour for each line; the last one, which is what stays unused, is pale."""
    return _UNUSED if at == len(ledger) - 1 else _COLORS[at % len(_COLORS)]


def _percent(part: int, whole: int) -> str:
    """A share with two decimals, as CSS takes it."""
    hundredths = part * 10_000 // whole
    return f"{hundredths // 100}.{hundredths % 100:02d}%"


def _self_test(report: Report) -> Html:
    return table((), [(name, show(value)) for name, value in (report.self_test or {}).items()])
