"""The JSON report of a boot. The names are fixed; a change only adds (`format_version`)."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from server import __version__
from server.findings import Finding, JsonValue, Location, Severity
from server.render.escape import redacted
from server.render.files import write_report
from server.report import KvFacts, MemoryFacts, Report

__all__ = ["FORMAT_VERSION", "report_json", "write_report"]

FORMAT_VERSION = "1.0"

_Object = dict[str, JsonValue]
_MAX_DEPTH = 32
# str(int) refuses longer numbers, see sys.set_int_max_str_digits.
_MAX_INT_BITS = 10_000


def report_json(report: Report) -> str:
    """The report as one JSON document in ASCII, without a newline at its end.

    It is valid JSON whatever the report holds: NaN and infinity become text, and a lone
    surrogate, which strict readers refuse, becomes a visible escape.
    """
    document: _Object = {
        "format_version": FORMAT_VERSION,
        "tool": {"name": "draftgate", "version": __version__},
        "verdict": report.verdict.value,
        "exit_code": int(report.exit_code),
        "counts": _counts(report.findings),
        "not_done": list(report.not_done),
        "inputs": {"draft": _draft(report), "target": _target(report)},
        "settings": {
            name: {"value": setting.value, "source": setting.source}
            for name, setting in sorted(report.settings.items())
        },
        "checks": [
            {"rule": check.rule, "status": check.status.value, "reason": check.reason}
            for check in report.checks.values()
        ],
        "diagnostics": [_diagnostic(finding) for finding in report.findings],
        "memory": None if report.memory is None else _memory(report.memory),
        "self_test": None if report.self_test is None else dict(report.self_test),
        "phases": [{"name": phase.name, "ms": round(phase.ms, 3)} for phase in report.phases],
        "elapsed_s": round(report.elapsed_s, 3),
    }
    return json.dumps(_plain(document, 0), ensure_ascii=True, allow_nan=False, indent=2)


def _counts(findings: Sequence[Finding]) -> _Object:
    """How many findings of each severity."""
    return {s.value: sum(finding.severity is s for finding in findings) for s in Severity}


def _draft(report: Report) -> JsonValue:
    """The draft as it was asked for and found."""
    draft = report.draft
    if draft is None:
        return None
    return {
        "asked": draft.asked,
        "path": draft.path,
        "family": draft.family,
        "schema": draft.schema,
        "layout": draft.layout,
        "candidates": dict(sorted(draft.candidates.items())),
    }


def _target(report: Report) -> JsonValue:
    """The target as it was asked for and found."""
    target = report.target
    if target is None:
        return None
    return {"asked": target.asked, "path": target.path, "architecture": target.architecture}


def _diagnostic(finding: Finding) -> _Object:
    """One finding."""
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "locations": [_location(place) for place in finding.locations],
        "why": finding.why,
        "fix": finding.fix,
        "docs": finding.docs,
    }


def _location(place: Location) -> _Object:
    """One place. `has_value` tells a null that was read from a value that is not there."""
    return {
        "role": place.role,
        "file": place.file,
        "pointer": place.pointer,
        "flag": place.flag,
        "value": place.value if place.has_value else None,
        "has_value": place.has_value,
        "source": place.source,
    }


def _memory(memory: MemoryFacts) -> _Object:
    """The device, its ledger and the KV pool. Bytes are integers."""
    return {
        "device": memory.device,
        "total_bytes": memory.total_bytes,
        "limit_bytes": memory.limit_bytes,
        "utilization": memory.utilization,
        "ledger": [
            {
                "line": line.line,
                "billed_bytes": line.billed_bytes,
                "measured_bytes": line.measured_bytes,
                "difference_bytes": line.difference_bytes,
                "note": line.note,
            }
            for line in memory.ledger
        ],
        "kv": None if memory.kv is None else _kv(memory.kv),
        "unexplained_bytes": memory.unexplained_bytes,
        "notes": list(memory.notes),
    }


def _kv(kv: KvFacts) -> _Object:
    """The KV pool."""
    return {
        "target_bytes_per_token": kv.target_bytes_per_token,
        "draft_bytes_per_token": kv.draft_bytes_per_token,
        "block_tokens": kv.block_tokens,
        "block_bytes": kv.block_bytes,
        "num_blocks": kv.num_blocks,
        "reserved_blocks": kv.reserved_blocks,
        "usable_tokens": kv.usable_tokens,
        "max_model_len": kv.max_model_len,
        "full_length_requests": kv.full_length_requests,
    }


def _plain(value: JsonValue, depth: int) -> JsonValue:
    """`value` with only what JSON can say."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
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
    """`text` without lone surrogates and without credentials inside an address."""
    return redacted(text.encode("utf-8", "backslashreplace").decode("utf-8"))
