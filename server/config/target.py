"""The target's config.json: a dense Qwen3 model, or the name of what it is instead.

Another architecture is refused by name (SD310), and its geometry is still read, from
`text_config` where a file nests it, so that pair rules can say both values. For such a file
nothing else is judged: other architectures state other fields, and their absence is no fault.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from server.config.backbone import judge_backbone, pick_backbone
from server.config.checks import Reading
from server.config.fields import Picked, pick, read_record
from server.config.records import TargetConfig
from server.config.rules import finding
from server.config.strict_json import JsonObject, read_object
from server.config.target_keys import ignored_keys
from server.config.values import Source, kind, pointer, shorten, token_ids
from server.findings import Finding, JsonValue, Outcome, outcome_of

ARCHITECTURE = "Qwen3ForCausalLM"
MODEL_TYPE = "qwen3"
_ROLE = "target"
# Where a model of several parts keeps the config of its decoder.
_NESTED = (("text_config",), ("thinker_config", "text_config"), ("language_config",))
_DRAFT_KEYS = ("dflash_config", "target_layer_ids", "num_target_layers", "draft_vocab_size")


class Target(NamedTuple):
    """The target as far as its file could be read.

    `architecture` is `architectures[0]`. `reading` is None when there is no JSON object to read;
    its record is there only when nothing in the file is refused.
    """

    architecture: str | None
    reading: Reading[TargetConfig] | None
    outcome: Outcome


def read_target(path: Path, strict: bool) -> Target:
    """Read the target's config. Never raises; every fault is in the outcome."""
    raw, outcome = read_object(path, _ROLE)
    source = Source(_ROLE, str(path))
    if raw is None:
        return Target(None, None, outcome)
    architecture = _pick_architecture(raw, source)
    name = architecture.value if isinstance(architecture.value, str) else None
    foreign = _foreign(raw, architecture, source)
    picked = _pick(raw, source, bool(foreign)) | {"architecture": architecture}
    picked |= _pick_names(raw)
    reading = read_record(TargetConfig, picked, source)
    outcome += outcome_of("SD310", foreign)
    if foreign:
        reading = _without_faults(reading)
    else:
        outcome += reading.outcome + judge_backbone(raw, reading)
        outcome += outcome_of("SD111", ignored_keys(raw, source, strict))
    if outcome.refused:
        reading = replace(reading, record=None)
    return Target(name, reading, outcome)


def _pick_architecture(raw: JsonObject, source: Source) -> Picked:
    """`architectures[0]`; missing when the list is absent, null or empty."""
    place = pick(raw, "architectures")
    if isinstance(place.value, list):
        present = bool(place.value)
        value = place.value[0] if present else None
        first = Picked(value, f"{place.pointer}/0", present=present)
        if len(place.value) < 2:
            return first
        message = f"{_ROLE} architectures is {shorten(place.value)}, one entry is needed"
        return first._replace(
            findings=(finding("SD107", message, source.at(place.pointer, place.value)),)
        )
    if place.value is None:
        return place._replace(present=False)
    message = (
        f"{_ROLE} architectures is {shorten(place.value)}, a list is needed, "
        f"found {kind(place.value)}"
    )
    fault = finding("SD107", message, source.at(place.pointer, place.value))
    return place._replace(value=None, findings=(fault,))


def _foreign(raw: JsonObject, architecture: Picked, source: Source) -> tuple[Finding, ...]:
    """SD310 when the file says that it is anything but a dense Qwen3."""
    model_type = pick(raw, "model_type")
    if isinstance(architecture.value, str) and architecture.value != ARCHITECTURE:
        place, name, served = architecture, "architecture", ARCHITECTURE
    elif model_type.value not in (None, MODEL_TYPE):
        place, name, served = model_type, "model_type", MODEL_TYPE
    else:
        return ()
    message = f"{_ROLE} {name} is {shorten(place.value)}, this server loads {served}"
    is_draft = any(key in raw for key in _DRAFT_KEYS)
    fix = "this is a draft's config.json: give it with --draft" if is_draft else None
    return (finding("SD310", message, source.at(place.pointer, place.value), fix=fix),)


def _pick(raw: JsonObject, source: Source, foreign: bool) -> dict[str, Picked]:
    """The fields of a `TargetConfig`, from the decoder's own config where a file nests it."""
    path, nested = _decoder(raw)
    if not foreign or "hidden_size" in raw or not path:
        return pick_backbone(raw, source) | _pick_tied(raw)
    picked = pick_backbone(nested, source) | _pick_tied(nested)
    return {n: place._replace(pointer=f"{path}{place.pointer}") for n, place in picked.items()}


def _decoder(raw: JsonObject) -> tuple[str, Mapping[str, JsonValue]]:
    """The decoder's config inside the file, with its pointer; both empty when there is none."""
    for keys in _NESTED:
        value = pick(raw, *keys).value
        if isinstance(value, Mapping):
            return pointer(*keys), value
    return "", {}


def _pick_tied(raw: Mapping[str, JsonValue]) -> dict[str, Picked]:
    """tie_word_embeddings; absent or null is transformers' default, false."""
    place = pick(raw, "tie_word_embeddings")
    return {"tie_word_embeddings": place._replace(present=place.value is not None)}


def _pick_names(raw: JsonObject) -> dict[str, Picked]:
    """Model types and special tokens, for pair rules; what is malformed there states nothing."""
    path, nested = _decoder(raw)
    levels = ((raw, ""), (nested, path))
    types = [level.get("model_type") for level, _ in levels]
    named = tuple(name for name in types if isinstance(name, str))
    picked = {"model_types": Picked(named, "/model_type")}
    for key in ("eos_token_id", "bos_token_id"):
        found = ((token_ids(level.get(key)), f"{path}/{key}") for level, path in levels)
        tokens, where = next((f for f in found if f[0]), ((), f"/{key}"))
        picked[key] = Picked(tokens, where)
    return picked


def _without_faults(reading: Reading[TargetConfig]) -> Reading[TargetConfig]:
    """The reading of a file that is refused as a whole: what is missing waits on SD310."""
    waiting = dict.fromkeys(reading.unresolved, "SD310")
    return replace(reading, unresolved=waiting, outcome=Outcome())
