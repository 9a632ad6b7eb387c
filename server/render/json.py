"""The JSON report of a boot. The names are fixed; a change only adds (`format_version`)."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from server import __version__
from server.findings import Finding, JsonValue, Location, Severity
from server.redact import redacted
from server.render.escape import MAX_INT_BITS
from server.report import (
    DraftFacts,
    LedgerLine,
    MemoryFacts,
    PlanFacts,
    Report,
    SettingFacts,
)

FORMAT_VERSION = "1.0"

_Object = dict[str, JsonValue]
_MAX_DEPTH = 32


def report_json(report: Report) -> str:
    """The report as one JSON document in ASCII, without a newline at its end.

    It is valid JSON whatever the report holds: NaN and infinity become text, and a lone
    surrogate, which strict readers refuse, becomes a visible escape.
    """
    document: _Object = {
        **version_facts(),
        **verdict_facts(report),
        "inputs": {
            "draft": None if report.draft is None else _draft(report.draft),
            "target": None if report.target is None else report.target._asdict(),
        },
        "settings": settings_facts(report.settings),
        "checks": [check._asdict() for check in report.checks.values()],
        "diagnostics": [finding_facts(finding) for finding in report.findings],
        "memory": None if report.memory is None else _memory(report.memory),
        "plan": None if report.plan is None else _plan(report.plan),
        "self_test": None if report.self_test is None else dict(report.self_test),
        "phases": [{"name": phase.name, "ms": round(phase.ms, 3)} for phase in report.phases],
        "elapsed_s": round(report.elapsed_s, 3),
    }
    return json_text(document, indent=2)


def json_text(document: JsonValue, indent: int | None = None) -> str:
    """`document` as JSON in ASCII: on one line, or with `indent` spaces for each level."""
    return json.dumps(_plain(document, 0), ensure_ascii=True, allow_nan=False, indent=indent)


def version_facts() -> _Object:
    """What a reader looks at first."""
    return {
        "format_version": FORMAT_VERSION,
        "tool": {"name": "draftgate", "version": __version__},
    }


def verdict_facts(report: Report) -> _Object:
    """The outcome of the run."""
    return {
        "verdict": report.verdict.value,
        "exit_code": int(report.exit_code),
        "counts": _counts(report.findings),
        "not_done": list(report.not_done),
    }


def settings_facts(settings: Mapping[str, SettingFacts]) -> _Object:
    """Each setting with its source, by name."""
    return {name: value._asdict() for name, value in sorted(settings.items())}


def _counts(findings: Sequence[Finding]) -> _Object:
    """How many findings of each severity."""
    return {s.value: sum(finding.severity is s for finding in findings) for s in Severity}


def _draft(draft: DraftFacts) -> _Object:
    """The draft as it was asked for and found."""
    return {**draft._asdict(), "candidates": dict(sorted(draft.candidates.items()))}


def finding_facts(finding: Finding) -> _Object:
    """One finding; the document has one exit code for all of them."""
    told = finding._asdict() | {"locations": [_location(place) for place in finding.locations]}
    del told["exit_code"]
    return told


def _location(place: Location) -> _Object:
    """One place. `has_value` tells a null that was read from a value that is not there."""
    return {**place._asdict(), "value": place.value if place.has_value else None}


def _memory(memory: MemoryFacts) -> _Object:
    """The device, its ledger and the KV pool. Bytes are integers."""
    return {
        **memory._asdict(),
        "ledger": _ledger(memory.ledger),
        "kv": None if memory.kv is None else memory.kv._asdict(),
        "ranks": [{**rank._asdict(), "ledger": _ledger(rank.ledger)} for rank in memory.ranks],
    }


def _plan(plan: PlanFacts) -> _Object:
    """One answer per device; each has the ledger of its own device."""
    answers = [{**one._asdict(), "memory": _memory(one.memory)} for one in plan.answers]
    return {**plan._asdict(), "answers": answers}


def _ledger(lines: Sequence[LedgerLine]) -> list[JsonValue]:
    return [{**line._asdict(), "difference_bytes": line.difference_bytes} for line in lines]


def _plain(value: JsonValue, depth: int) -> JsonValue:
    """`value` with only what JSON can say."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int):
        return value
    return _nested(value, depth)


def _nested(value: object, depth: int) -> JsonValue:
    """An object or array, cut where it is too deep; anything else (a path, say) as text."""
    if not isinstance(value, Mapping | Sequence):
        return _text(str(value))
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {_text(str(name)): _plain(inner, depth + 1) for name, inner in value.items()}
    return [_plain(inner, depth + 1) for inner in value]


def _text(text: str) -> str:
    """`text` without secrets and without lone surrogates."""
    return redacted(text).encode("utf-8", "backslashreplace").decode("utf-8")
