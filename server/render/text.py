"""Findings, settings and the verdict as text for people. One finding is 4 to 8 lines.

The first line stands alone. Text from outside is escaped, so that it cannot forge a line.
"""

import re
from collections.abc import Mapping, Sequence

from server.findings import Finding, Location, Severity, Verdict
from server.render.escape import MAX_TEXT, MAX_WORD, shorten, show, visible, word
from server.render.style import Style
from server.report import Report, SettingFacts

_LABEL = 6
_IGNORED = 8
# A quoted value counts as one word, so that no value is broken.
_WORDS = re.compile(r"(?<!\S)'[^']*'\S*|(?<!\S)\"(?:[^\"\\]|\\.)*\"\S*|\S+")


def wrap(text: str, width: int, first: int, rest: int) -> str:
    """`text` in lines of at most `width` columns, broken between words only.

    `first` and `rest` are the columns already taken on the first line and on the others.
    """
    lines, room = [""], width - first
    for piece in _WORDS.findall(shorten(visible(text), MAX_TEXT)):
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > room:
            lines.append("")
            room = width - rest
        lines[-1] += f" {piece}" if lines[-1] else piece
    return f"\n{' ' * rest}".join(lines)


def render_finding(finding: Finding, style: Style) -> str:
    """One finding: headline, where each value is, why, fix, docs."""
    tag = f"{finding.severity.value}[{finding.rule}]"
    head = f"{tag} {finding.name}: "
    lines = [
        f"{style.paint_severity(tag, finding.severity)} {finding.name}: "
        f"{wrap(finding.message, style.width, len(head), 4)}"
    ]
    lines += _locations(finding.locations, style)
    for label, text in (("why", finding.why), ("fix", finding.fix), ("docs", finding.docs)):
        if text:
            lines.append(_labelled(label, text, style))
    return "\n".join(lines)


def _labelled(label: str, text: str, style: Style, label_width: int = _LABEL) -> str:
    """One labelled paragraph."""
    indent = 2 + label_width + 2
    padded = style.paint(f"{label:<{label_width}}", "label")
    return f"  {padded}  {wrap(text, style.width, indent, indent)}"


def _locations(locations: Sequence[Location], style: Style) -> list[str]:
    """One line for each place, in columns: role, file, pointer or flag with its value, source.

    A value that does not fit behind its file stands on a line of its own.
    """
    label_width = max([_LABEL, *(len(visible(place.role)) for place in locations)])
    both = [_file(place) for place in locations if place.file and _place(place)]
    column = max(map(len, both), default=0)
    indent = " " * (label_width + 4)
    lines = []
    for place in locations:
        label = style.paint(f"{visible(place.role):<{label_width}}", "label")
        file, where = _file(place), _place(place)
        text = f"{file:<{column}}  {where}" if file and where else file or where
        if file and where and len(indent) + len(text) > style.width:
            text = f"{file}\n{indent}{where}"
        lines.append(f"  {label}  {text}".rstrip())
    return lines


def _file(place: Location) -> str:
    """The file of a location, as it can be copied."""
    return word(place.file) if place.file else ""


def _place(place: Location) -> str:
    """The pointer or flag of a location, its value, and where the value came from."""
    name = "" if not place.pointer else f"#{place.pointer.removeprefix('#')}"
    name = shorten(visible(place.flag or name), MAX_WORD)
    value = _value(place)
    text = f"{name} = {value}" if name and value else name or value
    source = place.source
    if source and (not place.flag or not source.endswith(place.flag)):
        # Without a flag it is a remark on the value ("in bytes"), not the origin of a setting.
        is_origin = place.flag and not source.startswith(("default", "from "))
        text = f"{text}  ({'from ' if is_origin else ''}{visible(source)})".lstrip()
    return text


def _value(place: Location) -> str:
    """The value at a location: as JSON for a file, as it was typed for a flag."""
    if not place.has_value or (place.value is None and not place.pointer):
        return ""
    if place.flag and isinstance(place.value, str):
        return word(place.value)
    return show(place.value)


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 error", "2 errors"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def render_counts(findings: Sequence[Finding]) -> str:
    """How many errors, warnings and notes; "no findings" without any."""
    totals = [(sum(f.severity is severity for f in findings), severity) for severity in Severity]
    told = [count(total, severity.value) for total, severity in totals if total]
    return ", ".join(told) or "no findings"


def render_verdict(report: Report, style: Style) -> str:
    """The last line of a boot: verdict, counts, what was not done, time, exit code."""
    code = report.exit_code
    outcome = {Verdict.ACCEPT: "accepted", Verdict.REFUSE: "refused"}.get(report.verdict)
    outcome = outcome or {2: "usage error", 70: "internal error"}.get(code, "interrupted")
    clauses = [visible(f.message) for f in report.findings if f.rule == "SD606"]
    clauses += [render_counts(report.findings)]
    clauses += [", ".join(map(visible, report.not_done))] if report.not_done else []
    clauses += [f"{report.elapsed_s:.2f} s", f"exit {code}"]
    role = "good" if report.verdict is Verdict.ACCEPT else "error"
    return f"{style.paint(outcome, role)}: {'; '.join(clauses)}"


def render_settings(report: Report, style: Style) -> str:
    """One line for each setting that is not a default, with its source. May be empty."""
    changed = {n: s for n, s in report.settings.items() if s.source != "default"}
    return settings_lines(changed, style)


def settings_lines(settings: Mapping[str, SettingFacts], style: Style) -> str:
    """One line for each setting: its name, its value, and where it came from."""
    width = max(map(len, settings), default=0)
    lines = []
    for name, setting in settings.items():
        value = setting.value
        text = word(value) if isinstance(value, str) else show(value)
        text = "not set" if value is None else text
        source = style.paint(f"({visible(setting.source)})", "label")
        lines.append(f"{name:<{width}}  {text}  {source}")
    return "\n".join(lines)


def render_ignored(report: Report, style: Style) -> str:
    """One line for the config keys that nothing reads, where notes are not printed one by one."""
    notes = [f for f in report.findings if f.rule == "SD111" and f.severity is Severity.NOTE]
    if style.verbose or not notes:
        return ""
    names = [f"{f.locations[0].role} {word(f.locations[0].pointer or '')}" for f in notes]
    more = f" and {len(names) - _IGNORED} more" if len(names) > _IGNORED else ""
    told = f"ignored: nothing reads {', '.join(names[:_IGNORED])}{more} (--verbose tells each)"
    return wrap(told, style.width, 0, 4)


def render_candidates(report: Report, style: Style) -> str:
    """Why each family does not claim the draft, for --verbose; empty when there is none to ask."""
    asked = report.draft.candidates if report.draft is not None and style.verbose else {}
    refused = {family: why for family, why in asked.items() if why}
    width = max(map(len, refused), default=0)
    lines = [
        f"  {family:<{width}}  {wrap(why, style.width, width + 4, width + 4)}"
        for family, why in refused.items()
    ]
    return "\n".join(["families asked before the draft's own:", *lines]) if lines else ""


def render_summary(report: Report, style: Style) -> str:
    """What was admitted, on which device, and what the self test found. May be empty."""
    rows: list[tuple[str, str]] = []
    if report.draft is not None:
        draft = report.draft
        kinds = (("schema", draft.schema), ("layout", draft.layout))
        facts = ", ".join(f"{name} {value}" for name, value in kinds if value)
        family = f"{draft.family or 'unknown'}{f' ({facts})' if facts else ''}"
        rows.append(("draft", f"{family} at {word(draft.path or draft.asked)}{_how(draft.how)}"))
    if report.target is not None:
        target = report.target
        architecture = target.architecture or "architecture unknown"
        place = f"{word(target.path or target.asked)}{_how(target.how)}"
        rows.append(("target", f"{architecture} at {place}"))
    if report.memory is not None:
        rows.append(("device", report.memory.device))
    if report.self_test:
        facts = ", ".join(f"{name} {_fact(value)}" for name, value in report.self_test.items())
        rows.append(("self-test", facts))
    return "\n".join(_labelled(label, text, style, 9) for label, text in rows)


def _how(how: str | None) -> str:
    return f" ({visible(how)})" if how else ""


def _fact(value: object) -> str:
    """One measured fact: text as it is, other values as JSON."""
    return value if isinstance(value, str) else show(value)  # type: ignore[arg-type]
