"""Pair rules about shapes and ids: sizes, depth, vocabulary, heads, captured layers."""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.pair_model import Pair, shown, shown_ids
from server.config.rules import finding
from server.config.values import shorten
from server.findings import Finding

_GEOMETRY = ("num_attention_heads", "num_key_value_heads", "head_dim")
_KERNEL_HEAD_DIM = 128
_KERNEL_HIDDEN_MULTIPLE = 512
_EMBEDDING_OUTPUT = -1
# Vocabularies are padded to multiples of at most this many rows.
_PADDING_ROWS = 1024


def _hidden_size(pair: Pair) -> Iterator[Finding]:
    """SD201. What a draft captures may be wider than the draft itself, where its file says so."""
    stated = pair.draft.partial.target_hidden_size
    field = "hidden_size" if stated is None else "target_hidden_size"
    draft, target = getattr(pair.draft.partial, field), pair.target.partial.hidden_size
    if draft != target:
        yield finding(
            "SD201",
            f"draft {field} is {draft}, target hidden_size is {target}",
            pair.at_draft(field),
            pair.at_target("hidden_size"),
            fix=f"use a draft with {field} {target}, or the target with hidden_size {draft} "
            "that this draft was trained for",
        )


def _depth(pair: Pair) -> Iterator[Finding]:
    """SD202."""
    draft, target = pair.draft.partial.num_target_layers, pair.target.partial.num_hidden_layers
    if draft != target:
        yield finding(
            "SD202",
            f"draft {pair.name('num_target_layers')} is {draft}, "
            f"target num_hidden_layers is {target}",
            pair.at_draft("num_target_layers"),
            pair.at_target("num_hidden_layers"),
            fix=f"use a draft trained for a target of {target} layers, or a target of {draft} "
            "layers that this draft was trained for",
        )


def _vocabulary(pair: Pair) -> Iterator[Finding]:
    """SD203."""
    draft, target = pair.draft.partial.vocab_size, pair.target.partial.vocab_size
    if draft == target:
        return
    fix = f"use a draft with vocab_size {target}, or the target that this draft was trained for"
    if abs(draft - target) <= _PADDING_ROWS:
        fix += f"; if only padding rows differ, export the draft with vocab_size {target}"
    message = f"draft vocab_size is {draft}, target vocab_size is {target}"
    yield finding("SD203", message, *pair.both("vocab_size"), fix=fix)


def _layer_ids(pair: Pair) -> Iterator[Finding]:
    """SD209."""
    depth, draft = pair.target.partial.num_hidden_layers, pair.draft.partial
    ids, shift = draft.target_layer_ids, draft.layer_id_shift
    outputs = enumerate(draft.captured_outputs)
    wrong = [k for k, layer in outputs if not _EMBEDDING_OUTPUT <= layer < depth]
    if wrong:
        lowest = _EMBEDDING_OUTPUT + shift if draft.schema_id == "flat" or shift else 0
        ids_lie = f"its ids lie between {lowest} and {depth - 1 + shift}"
        key = pair.name("target_layer_ids")
        names = ", ".join(f"{key}[{k}] is {ids[k]}" for k in wrong)
        yield finding(
            "SD209",
            f"draft {names}, target num_hidden_layers is {depth}",
            *(pair.at_draft("target_layer_ids", k) for k in wrong),
            pair.at_target("num_hidden_layers"),
            fix=f"use a draft trained for this target: {ids_lie}",
        )


def _mask_id(pair: Pair) -> Iterator[Finding]:
    """SD210."""
    mask, vocab = pair.draft.partial.mask_token_id, pair.target.partial.vocab_size
    if mask >= vocab:
        yield finding(
            "SD210",
            f"draft mask_token_id is {mask}, target vocab_size is {vocab}",
            pair.at_draft("mask_token_id"),
            pair.at_target("vocab_size"),
            fix=f"use a draft whose mask_token_id is at most {vocab - 1}",
        )


def _attention_geometry(pair: Pair) -> Iterator[Finding]:
    """SD211."""
    draft, target = pair.draft.partial, pair.target.partial
    names = [name for name in _GEOMETRY if getattr(draft, name) != getattr(target, name)]
    if names:
        ours = ", ".join(f"{name} is {getattr(draft, name)}" for name in names)
        theirs = ", ".join(f"{name} is {getattr(target, name)}" for name in names)
        yield finding(
            "SD211",
            f"draft {ours}; target {theirs}",
            *pair.both(*names),
        )


def _captured_count(pair: Pair) -> Iterator[Finding]:
    """SD212."""
    count, layers = len(pair.draft.partial.target_layer_ids), pair.draft.partial.num_hidden_layers
    if count != layers:
        yield finding(
            "SD212",
            f"draft target_layer_ids holds {count} ids, draft num_hidden_layers is {layers}",
            pair.at_draft("target_layer_ids"),
            pair.at_draft("num_hidden_layers"),
        )


def _last_layer(pair: Pair) -> Iterator[Finding]:
    """SD213."""
    ids, depth = pair.draft.partial.captured_outputs, pair.target.partial.num_hidden_layers
    if depth - 1 in ids:
        yield finding(
            "SD213",
            f"draft target_layer_ids holds {depth - 1}, target num_hidden_layers is {depth}",
            pair.at_draft("target_layer_ids", ids.index(depth - 1)),
            pair.at_target("num_hidden_layers"),
        )


def _mask_is_special(pair: Pair) -> Iterator[Finding]:
    """SD214, unless SD118 has told it of the draft's own copy of the token."""
    mask, told = pair.draft.partial.mask_token_id, pair.draft.outcome.findings
    overlaps = {place.pointer for f in told if f.rule == "SD118" for place in f.locations}
    for name in ("eos_token_id", "bos_token_id"):
        tokens = getattr(pair.target.partial, name)
        if mask in tokens and f"/{name}" not in overlaps:
            message = f"draft mask_token_id is {mask}, target {name} is {shown_ids(tokens)}"
            yield finding("SD214", message, pair.at_draft("mask_token_id"), pair.at_target(name))


def _draft_vocabulary(pair: Pair) -> Iterator[Finding]:
    """SD215."""
    rows, vocab = pair.draft.partial.draft_vocab_size, pair.target.partial.vocab_size
    if rows is not None and rows > vocab:
        yield finding(
            "SD215",
            f"draft {pair.name('draft_vocab_size')} is {rows}, target vocab_size is {vocab}",
            pair.at_draft("draft_vocab_size"),
            pair.at_target("vocab_size"),
        )


def _model_type(pair: Pair) -> Iterator[Finding]:
    """SD216."""
    wanted, found = pair.draft.partial.target_model_type, pair.target.partial.model_types
    if found and wanted not in found:
        yield finding(
            "SD216",
            f"draft target_model_type is {shorten(wanted)}, "
            f"target model_type is {' and '.join(map(shorten, found))}",
            pair.at_draft("target_model_type"),
            pair.at_target("model_types"),
            fix=f"use a draft trained for a target of model_type {shorten(found[0])}, or a target "
            f"of model_type {shorten(wanted)}",
        )


def _kernel_limits(pair: Pair) -> Iterator[Finding]:
    """SD336, the target's half: the kernel of DSpine takes these shapes only."""
    head_dim, hidden = pair.target.partial.head_dim, pair.target.partial.hidden_size
    if head_dim != _KERNEL_HEAD_DIM:
        message = f"target head_dim is {shown(head_dim)}, {_KERNEL_HEAD_DIM} is needed"
        yield finding("SD336", message, pair.at_target("head_dim"))
    if hidden % _KERNEL_HIDDEN_MULTIPLE:
        message = (
            f"target hidden_size is {hidden}, a multiple of {_KERNEL_HIDDEN_MULTIPLE} is needed"
        )
        yield finding("SD336", message, pair.at_target("hidden_size"))


def _same(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}.{name}" for name in names for side in ("draft", "target"))


_LAYERS = ("draft.target_layer_ids", "draft.num_hidden_layers")
_IDS = ("draft.target_layer_ids", "target.num_hidden_layers")

CHECKS: tuple[Check[Pair], ...] = (
    Check("SD201", _same("hidden_size"), _hidden_size),
    Check("SD202", ("draft.num_target_layers", "target.num_hidden_layers"), _depth),
    Check("SD203", _same("vocab_size"), _vocabulary),
    Check("SD209", _IDS, _layer_ids),
    Check("SD210", ("draft.mask_token_id", "target.vocab_size"), _mask_id),
    # Of block drafters alone: the layers and heads of others follow nothing that they capture.
    Check("SD211", (*_same(*_GEOMETRY), "draft.block_size"), _attention_geometry),
    Check("SD212", ("draft.block_size", *_LAYERS), _captured_count),
    Check("SD213", _IDS, _last_layer),
    Check("SD214", ("draft.mask_token_id",), _mask_is_special),
    Check("SD215", ("draft.draft_vocab_size", "target.vocab_size"), _draft_vocabulary),
    Check("SD216", ("draft.target_model_type",), _model_type),
    Check("SD336", ("target.head_dim", "target.hidden_size"), _kernel_limits),
)
