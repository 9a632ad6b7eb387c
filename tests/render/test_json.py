"""The JSON report: fixed names, always valid, always the same for the same report."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.findings import (
    Check,
    CheckStatus,
    ExitCode,
    Finding,
    JsonValue,
    Location,
    Outcome,
    Severity,
)
from server.render.json import report_json
from server.report import (
    DraftFacts,
    KvFacts,
    LedgerLine,
    MemoryFacts,
    Phase,
    Report,
    SettingFacts,
    TargetFacts,
)


def make_finding(value: JsonValue = 7, message: str = "both numbers") -> Finding:
    places = (
        Location("draft", "/d/config.json", "/block_size", value=value),
        Location("flag", flag="--spec-tokens", source="flag --spec-tokens", has_value=False),
    )
    return Finding(
        "SD208", "draft-tokens-exceed-trained-block", Severity.ERROR, message, places,
        "why", "fix", "docs", ExitCode.CONFIG,
    )  # fmt: skip


def make_report(finding: Finding | None = None) -> Report:
    report = Report(
        draft=DraftFacts(
            "D", "/d", "dflash", "flat", "anchor-keep", "local", {"eagle": "no", "a": "no"}
        ),
        target=TargetFacts("T", "/t", "Qwen3ForCausalLM"),
        settings={"target": SettingFacts("T", "flag --target"), "check": SettingFacts(True, "env")},
        memory=MemoryFacts(
            "CPU", 1000, 900, "0.9",
            (LedgerLine("weights", 600, 610, "n"), LedgerLine("margin", 300)),
            KvFacts(1, 2, 3, 4, 5, 6, 7, 8, 9, "fp8_e4m3"), 10, ("remark",),
        ),
        self_test={"passed": True},
        phases=[Phase("parse", 1.23456)],
        not_done=["target not loaded"],
        elapsed_s=0.18123,
    )  # fmt: skip
    report.add(Outcome((finding or make_finding(),), (Check("SD208", CheckStatus.FAIL),)))
    return report


def parsed(report: Report) -> dict[str, Any]:
    text = report_json(report)
    assert text.isascii()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return document


def test_the_fixed_names_and_values() -> None:
    document = parsed(make_report())
    assert list(document) == [
        "format_version", "tool", "verdict", "exit_code", "counts", "not_done", "inputs",
        "settings", "checks", "diagnostics", "memory", "plan", "self_test", "phases", "elapsed_s",
    ]  # fmt: skip
    assert document["format_version"] == "1.0"
    assert document["tool"]["name"] == "draftgate"
    assert (document["verdict"], document["exit_code"]) == ("refuse", 78)
    assert document["counts"] == {"error": 1, "warning": 0, "note": 0}
    assert document["inputs"] == {
        "draft": {
            "asked": "D", "path": "/d", "family": "dflash", "schema": "flat",
            "layout": "anchor-keep", "how": "local", "candidates": {"a": "no", "eagle": "no"},
        },
        "target": {"asked": "T", "path": "/t", "architecture": "Qwen3ForCausalLM", "how": None},
    }  # fmt: skip
    assert document["settings"]["target"] == {"value": "T", "source": "flag --target"}
    assert list(document["settings"]) == ["check", "target"]
    assert document["checks"] == [{"rule": "SD208", "status": "fail", "reason": ""}]
    assert document["phases"] == [{"name": "parse", "ms": 1.235}]
    assert document["self_test"] == {"passed": True}


def test_a_diagnostic_has_its_places_with_values() -> None:
    (diagnostic,) = parsed(make_report())["diagnostics"]
    first, second = diagnostic.pop("locations")
    assert diagnostic == {
        "rule": "SD208", "name": "draft-tokens-exceed-trained-block", "severity": "error",
        "message": "both numbers", "why": "why", "fix": "fix", "docs": "docs",
    }  # fmt: skip
    assert first == {
        "role": "draft", "file": "/d/config.json", "pointer": "/block_size", "flag": None,
        "value": 7, "has_value": True, "source": None,
    }  # fmt: skip
    assert (second["flag"], second["value"], second["has_value"]) == ("--spec-tokens", None, False)


def test_memory_is_in_integers() -> None:
    memory = parsed(make_report())["memory"]
    assert memory["ledger"] == [
        {"line": "weights", "billed_bytes": 600, "measured_bytes": 610, "difference_bytes": 10,
         "note": "n"},
        {"line": "margin", "billed_bytes": 300, "measured_bytes": None, "difference_bytes": None,
         "note": ""},
    ]  # fmt: skip
    assert memory["kv"] == {
        "target_bytes_per_token": 1, "draft_bytes_per_token": 2, "block_tokens": 3,
        "block_bytes": 4, "num_blocks": 5, "reserved_blocks": 6, "usable_tokens": 7,
        "max_model_len": 8, "full_length_requests": 9,
        "target_dtype": "fp8_e4m3", "draft_dtype": None,
    }  # fmt: skip
    assert [memory[name] for name in ("device", "total_bytes", "limit_bytes", "utilization")] == [
        "CPU", 1000, 900, "0.9",
    ]  # fmt: skip
    assert (memory["unexplained_bytes"], memory["notes"]) == (10, ["remark"])


def test_an_empty_report_is_a_document_too() -> None:
    document = parsed(Report())
    assert (document["verdict"], document["exit_code"]) == ("accept", 0)
    assert document["inputs"] == {"draft": None, "target": None}
    assert document["memory"] is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("\udc80/x", "\\udc80/x"),
        pytest.param(10**5000, "an integer of 16610 bits", id="long"),
        ("\x1b\u202e", "\x1b\u202e"),
        (True, True),
        ([None, {"a\udfff": 1.5}], [None, {"a\\udfff": 1.5}]),
        ("https://u:p@host/x", "https://***@host/x"),
    ],
)
def test_what_json_cannot_say_is_said_as_text(value: JsonValue, told: object) -> None:
    document = parsed(make_report(make_finding(value)))
    assert document["diagnostics"][0]["locations"][0]["value"] == told


def test_a_value_that_is_too_deep_is_cut() -> None:
    value: JsonValue = "bottom"
    for _ in range(2000):
        value = [value]
    text = report_json(make_report(make_finding(value)))
    assert '"..."' in text
    assert "bottom" not in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(value=json_values, message=st.text())
def test_every_report_is_valid_and_repeatable(value: JsonValue, message: str) -> None:
    report = make_report(make_finding(value, message))
    assert report_json(report) == report_json(report)
    parsed(report)["diagnostics"][0]["message"].encode("utf-8")
