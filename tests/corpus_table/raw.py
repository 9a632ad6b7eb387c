"""A tiny reader of config files that shares no code with the gate: the facts of a pair."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Raw: TypeAlias = Mapping[str, Any]

MODEL_TYPE, ARCHITECTURE = "qwen3", "Qwen3ForCausalLM"
# Each fact, and the rule that has to tell both values where they differ.
FACT_RULES = {
    "hidden_size": "SD201",
    "depth": "SD202",
    "vocab_size": "SD203",
    "positions": "SD204",
    "rope_theta": "SD205",
}
_NO_SIZE = 1e12  # a number beyond every size, length and base states nothing


class Difference(NamedTuple):
    """A fact on which draft and target differ; `rule` has to tell both values."""

    fact: str
    rule: str
    draft: float | str
    target: float | str


@dataclass(frozen=True)
class Facts:
    """What one file states; a fact that it does not state is None.

    `foreign` is the name of an architecture or model type other than dense Qwen3. `obstacles`
    maps a rule to what stands in the file that no forward of dense Qwen3 computes.
    """

    numbers: Mapping[str, float | None]
    foreign: str | None = None
    obstacles: Mapping[str, str] = field(default_factory=dict)


def load(path: Path) -> Raw | None:
    """The object in the file; None when there is none."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def names_of(raw: Raw) -> list[str]:
    """The architectures and the model type that a file states."""
    stated = raw.get("architectures")
    names = stated if isinstance(stated, list) else []
    return [name for name in (*names, raw.get("model_type")) if isinstance(name, str)]


def draft_facts(raw: Raw) -> Facts:
    """The facts of a draft; its depth is that of the target it was trained for."""
    numbers = _numbers(raw) | {"depth": _number(raw.get("num_target_layers"))}
    obstacles = _obstacles(raw)
    if raw.get("model_type") != MODEL_TYPE:
        obstacles["SD312"] = f"model_type {raw.get('model_type')}"
    return Facts(numbers, None, obstacles)


def target_facts(raw: Raw) -> Facts:
    """The facts of a target, of its text part where it has several."""
    text = raw.get("text_config")
    inner = text if "hidden_size" not in raw and isinstance(text, dict) else raw
    numbers = _numbers(inner) | {"depth": _number(inner.get("num_hidden_layers"))}
    foreign = next((n for n in names_of(raw) if n not in (ARCHITECTURE, MODEL_TYPE)), None)
    return Facts(numbers, foreign, {} if foreign else _obstacles(raw))


def differences(draft: Facts, target: Facts) -> list[Difference]:
    """What differs. A draft may have more positions than its target, not fewer."""
    found = []
    if target.foreign is not None:
        served = ARCHITECTURE if target.foreign[0].isupper() else MODEL_TYPE
        found.append(Difference("architecture", "SD310", served, target.foreign))
    for fact, rule in FACT_RULES.items():
        ours, theirs = draft.numbers[fact], target.numbers[fact]
        if ours is None or theirs is None:
            continue
        if ours < theirs if fact == "positions" else ours != theirs:
            found.append(Difference(fact, rule, ours, theirs))
    return found


def unstated(draft: Facts, target: Facts) -> list[str]:
    """Facts that one of the two files does not state."""
    sides = {"draft": draft.numbers, "target": target.numbers}
    return [f"{side} {f}" for side, facts in sides.items() for f in facts if facts[f] is None]


def reordered(raw: Raw) -> list[str]:
    """The same object as JSON text with all keys in another order; none when it is too deep."""
    try:
        return [json.dumps(_sorted(raw, reverse)) for reverse in (False, True)]
    except RecursionError:
        return []


def _sorted(value: Any, reverse: bool) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _sorted(value[key], reverse) for key in sorted(value, reverse=reverse)}
    return [_sorted(item, reverse) for item in value] if isinstance(value, list) else value


def _numbers(raw: Raw) -> dict[str, float | None]:
    tables = (raw, raw.get("rope_parameters"), raw.get("rope_scaling"))
    thetas = [_number(t.get("rope_theta")) for t in tables if isinstance(t, dict)]
    return {
        "hidden_size": _number(raw.get("hidden_size")),
        "vocab_size": _number(raw.get("vocab_size")),
        "positions": _number(raw.get("max_position_embeddings")),
        "rope_theta": next((theta for theta in thetas if theta is not None), None),
    }


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _NO_SIZE else None


def _obstacles(raw: Raw) -> dict[str, str]:
    found = {}
    if raw.get("quantization_config") is not None:
        found["SD309"] = "quantised"
    for key in ("rope_scaling", "rope_parameters"):
        table = raw.get(key) or {}
        kind = table.get("rope_type", table.get("type")) if isinstance(table, dict) else "no table"
        if kind not in (None, "default"):
            found["SD308"] = f"rope type {kind}"
    if _windowed(raw):
        found["SD307"] = "sliding window"
    if raw.get("attention_bias") or raw.get("hidden_act", "silu") != "silu":
        found["SD311"] = "attention bias or another activation"
    return found


def _windowed(raw: Raw) -> bool:
    nested = raw.get("dflash_config")
    by_draft = isinstance(nested, dict) and bool(nested.get("use_swa"))
    used = bool(raw.get("use_sliding_window")) and raw.get("sliding_window", 0) is not None
    types = raw.get("layer_types")
    other = isinstance(types, list) and any(kind != "full_attention" for kind in types)
    return by_draft or used or other
