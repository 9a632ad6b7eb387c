"""A matching draft and target for the tests of the pair rules, and ways to change them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from server.config.checks import Reading
from server.config.pair import Asked, Pair
from server.config.records import AnchorLayout, BlockDraft, Record, TargetConfig
from server.findings import CheckStatus, Finding, Outcome, Severity
from tests.geometry import QWEN3_8B

R = TypeVar("R", bound=Record)

BACKBONE: Mapping[str, Any] = {
    **QWEN3_8B,
    "dtype": "bfloat16",
}
DRAFT: Mapping[str, Any] = {
    **BACKBONE,
    "num_hidden_layers": 5,
    "family": "dflash",
    "schema_id": "nested",
    "block_size": 16,
    "mask_token_id": 151669,
    "target_layer_ids": (1, 9, 17, 25, 33),
    "num_target_layers": 36,
    "layout": AnchorLayout.DROP,
}
TARGET: Mapping[str, Any] = {**BACKBONE, "architecture": "Qwen3ForCausalLM"}


def make_reading(record: R, role: str, unresolved: Mapping[str, str]) -> Reading[R]:
    fields = {name: value for name, value in record if name not in unresolved}
    partial = type(record).model_construct(**fields)
    pointers = {name: f"/{name}" for name in type(record).model_fields}
    full = None if unresolved else record
    return Reading(role, f"/{role}.json", partial, full, unresolved, pointers, Outcome())


def make_pair(
    draft: Mapping[str, Any] | None = None,
    target: Mapping[str, Any] | None = None,
    asked: Asked | None = None,
    unresolved: Mapping[str, str] | None = None,
) -> Pair:
    """z-lab's draft for Qwen3-8B and its target, with changes; `unresolved` is the target's."""
    return Pair(
        make_reading(BlockDraft(**{**DRAFT, **(draft or {})}), "draft", {}),
        make_reading(TargetConfig(**{**TARGET, **(target or {})}), "target", unresolved or {}),
        asked or Asked(),
    )


def errors(outcome: Outcome) -> list[str]:
    return [f.rule for f in outcome.findings if f.severity is Severity.ERROR]


def only(outcome: Outcome) -> Finding:
    (finding,) = outcome.findings
    return finding


def status(outcome: Outcome, rule: str) -> CheckStatus:
    return {check.rule: check.status for check in outcome.checks}[rule]
