"""What every block drafter's reader does: the shared fields, and the checks of their meaning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from server.config.backbone import (
    differs,
    judge_arithmetic,
    judge_backbone,
    pick_backbone,
    uncomputed,
)
from server.config.checks import Check, Reading, run_checks
from server.config.families.keys import CAUSAL_KEYS, COMPUTED, WINDOW_KEYS
from server.config.families.marks import AUX_IDS, MASK_NAMES
from server.config.families.model import DraftFile
from server.config.fields import Picked, given, pick_one, read_record
from server.config.records import AnchorLayout, BlockDraft
from server.config.rules import finding
from server.config.values import pointer, same, shorten
from server.findings import Finding, Outcome, outcome_of


class Subject(NamedTuple):
    """What the checks look at: the raw file and what could be read of it."""

    file: DraftFile
    reading: Reading[BlockDraft]
    lowest_layer_id: int = 0


def pick_draft(file: DraftFile) -> dict[str, Picked]:
    """The fields that every block drafter states. A fact may stand at either level."""
    picked = pick_backbone(file.raw, file.source)
    picked |= pick_either(file, "target_layer_ids")
    names = [place for place in file.both(*MASK_NAMES) if place.value is not None]
    places = (file.inner("mask_token_id"), file.top("mask_token_id"), *names)
    picked["mask_token_id"] = pick_one("mask_token_id", file.source, *places)
    picked["block_size"] = pick_one(
        "block_size", file.source, file.top("block_size"), file.inner("block_size")
    )
    depth = (file.top("num_target_layers"), file.inner("num_target_layers"))
    other = file.top("target_num_hidden_layers")
    picked["num_target_layers"] = pick_one("num_target_layers", file.source, *depth, other)
    for name in ("target_hidden_size", "target_model_type"):
        picked[name] = file.top(name)
    return picked


def pick_either(file: DraftFile, *names: str) -> dict[str, Picked]:
    """Fields that may stand inside dflash_config or at the top level; both must agree."""
    return {n: pick_one(n, file.source, file.inner(n), file.top(n)) for n in names}


def given_names(family: str, schema_id: str) -> dict[str, Picked]:
    """The two fields that the claim decided."""
    return {"family": given(family), "schema_id": given(schema_id)}


def given_layout(layout: AnchorLayout, *faults: Finding) -> Picked:
    """The anchor layout that the schema implies, or the findings that say why none does."""
    return given(layout)._replace(findings=faults)


def read_draft_record(file: DraftFile, picked: Mapping[str, Picked]) -> Reading[BlockDraft]:
    """Validate the picked fields; see `server.config.fields.read_record`."""
    return read_record(BlockDraft, picked, file.source)


def judge_draft(subject: Subject, *extra: Check[Subject]) -> Reading[BlockDraft]:
    """The reading of a plain drafter with the findings of all checks added to its outcome."""
    found = judge_backbone(subject.file.raw, subject.reading)
    return _judged(subject, found, (*COMMON, *PLAIN, *extra), {})


def judge_bridged(
    subject: Subject, waits: Mapping[str, str], *extra: Check[Subject]
) -> Reading[BlockDraft]:
    """The same for a drafter that has rules of its own about attention inside the block.

    `waits` maps what the extra checks need and the file lacks to the rule that says so.
    """
    found = judge_arithmetic(subject.file.raw, subject.reading)
    return _judged(subject, found, (*COMMON, *extra), waits)


def _judged(
    subject: Subject, found: Outcome, checks: tuple[Check[Subject], ...], waits: Mapping[str, str]
) -> Reading[BlockDraft]:
    reading = subject.reading
    if "layout" not in reading.unresolved:
        found += outcome_of("SD304", ())
    found += run_checks(checks, subject, {**reading.unresolved, **waits})
    return replace(reading, outcome=reading.outcome + found)


def _backbone(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    model_type, names = file.top("model_type"), file.top("architectures")
    if not model_type.present:
        yield finding("SD105", "draft model_type is missing", file.at(model_type))
    if model_type.present and model_type.value != "qwen3":
        message = (
            f"draft model_type is {shorten(model_type.value)} with architectures "
            f"{shorten(names.value)}, decoder layers of qwen3 are served"
        )
        yield finding("SD303", message, file.at(names), file.at(model_type))


def other_architecture(
    file: DraftFile, served: Sequence[str], need: str = "is served"
) -> Iterator[Finding]:
    """SD303 for an architecture that is none of `served`; the model_type is told by itself."""
    if file.architecture not in served:
        names, wanted = file.top("architectures"), " or ".join(served)
        message = f"draft architectures is {names.shown}, {wanted} {need}"
        fix = f"use a draft whose architectures names {wanted}"
        yield finding("SD303", message, file.at(names), fix=fix)


def _ids_increase(subject: Subject) -> Iterator[Finding]:
    ids, where = subject.reading.partial.target_layer_ids, _pointer(subject, "target_layer_ids")
    for i, (left, right) in enumerate(pairwise(ids), start=1):
        if right <= left:
            message = f"draft target_layer_ids has {right} after {left}, at position {i}"
            yield finding("SD116", message, subject.file.source.at(where, list(ids)))
            return


def _ids_range(subject: Subject) -> Iterator[Finding]:
    where, lowest = _pointer(subject, "target_layer_ids"), subject.lowest_layer_id
    for i, layer in enumerate(subject.reading.partial.target_layer_ids):
        if layer < lowest:
            ground = "-1 is the embedding's output, in the flat schema only"
            message = (
                f"draft target_layer_ids holds {layer}, at least {lowest} is needed ({ground})"
            )
            yield finding("SD108", message, subject.file.source.at(where + pointer(i), layer))
            return


def _mask_range(subject: Subject) -> Iterator[Finding]:
    mask, size = subject.reading.partial.mask_token_id, subject.reading.partial.vocab_size
    if mask >= size:
        message = f"draft mask_token_id is {mask}, draft vocab_size is {size}"
        source, where = subject.file.source, _pointer(subject, "mask_token_id")
        yield finding(
            "SD108",
            message,
            source.at(where, mask),
            source.at(_pointer(subject, "vocab_size"), size),
        )


def _mask_overlap(subject: Subject) -> Iterator[Finding]:
    mask, source = subject.reading.partial.mask_token_id, subject.file.source
    for key in ("eos_token_id", "bos_token_id"):
        value = subject.file.raw.get(key)
        tokens = value if isinstance(value, list) else [value]
        if any(same(token, mask) for token in tokens):
            message = f"draft mask_token_id is {mask}, {key} is {shorten(value)}"
            mine = source.at(_pointer(subject, "mask_token_id"), mask)
            yield finding("SD118", message, mine, source.at(pointer(key), value))


def _width(subject: Subject) -> Iterator[Finding]:
    target, hidden = subject.file.top("target_hidden_size"), subject.reading.partial.hidden_size
    if differs(target.value, hidden):
        yield uncomputed(target, hidden, subject.file.source)


def _factors(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    places = [(place, value) for key, value in COMPUTED.items() for place in file.both(key)]
    # At the top level it is a key of the decoder, and judged there.
    places.append((file.inner("final_logit_softcapping"), None))
    for place, computed in places:
        if differs(place.value, computed):
            yield uncomputed(place, computed, file.source)


def _aux_ids(subject: Subject) -> Iterator[Finding]:
    ids = subject.reading.partial.target_layer_ids
    inputs, source = [layer + 1 for layer in ids], subject.file.source
    for place in subject.file.both(AUX_IDS):
        if differs(place.value, inputs):
            message = (
                f"draft {place.name} is {place.shown}, target_layer_ids is {shorten(list(ids))}; "
                "the former name inputs, one more than an output"
            )
            mine = source.at(_pointer(subject, "target_layer_ids"), list(ids))
            yield finding("SD110", message, subject.file.at(place), mine)


def _attention_mode(subject: Subject) -> Iterator[Finding]:
    draft, source = subject.reading.partial, subject.file.source
    full = draft.num_attention_heads == draft.num_key_value_heads
    for place in subject.file.both("attention_mode"):
        if differs(place.value, "gqa") and not (full and place.value == "mha"):
            yield uncomputed(place, "gqa", source)


def _causal(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    for place in file.both(*CAUSAL_KEYS):
        if differs(place.value, False):
            yield uncomputed(place, False, file.source)


def _windows(subject: Subject) -> Iterator[Finding]:
    for place in subject.file.both(*WINDOW_KEYS):
        if differs(place.value, False):
            name = place.pointer.removeprefix("/").replace("/", ".")
            message = f"draft {name} is {shorten(place.value)}, full attention is served"
            yield finding("SD307", message, subject.file.at(place))


def _pointer(subject: Subject, field: str) -> str:
    return subject.reading.pointers.get(field, "")


# Every drafter, whoever serves it; then every block drafter here; then those without a bridge.
FACTS: tuple[Check[Subject], ...] = (
    Check("SD116", ("target_layer_ids",), _ids_increase),
    Check("SD108", ("target_layer_ids",), _ids_range),
    Check("SD108", ("mask_token_id", "vocab_size"), _mask_range),
    Check("SD118", ("mask_token_id",), _mask_overlap),
)
COMMON: tuple[Check[Subject], ...] = (
    Check("SD303", (), _backbone),
    *FACTS,
    Check("SD311", ("hidden_size", "target_hidden_size"), _width),
    Check("SD311", (), _factors),
    Check("SD311", ("num_attention_heads", "num_key_value_heads"), _attention_mode),
    Check("SD110", ("target_layer_ids",), _aux_ids),
)
PLAIN: tuple[Check[Subject], ...] = (
    Check("SD311", (), _causal),
    Check("SD307", (), _windows),
)
