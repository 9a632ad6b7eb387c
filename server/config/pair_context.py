"""Pair rules about positions and arithmetic: context length, rotary base, dtype, draft tokens."""

import struct
from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.pair_model import Asked, Pair, place, shown
from server.config.records import TargetConfig
from server.config.rules import finding
from server.findings import Finding


def _context(pair: Pair) -> Iterator[Finding]:
    """SD204. Lengths and positions are in tokens."""
    if pair.asked.max_model_len is None:
        yield from _context_of_target(pair)
    else:
        yield from _context_asked(pair, pair.asked.max_model_len)


def _context_of_target(pair: Pair) -> Iterator[Finding]:
    """Nobody asked for a length: the draft must cover what the target advertises.

    A fitted length (--max-model-len auto) takes what both models cover.
    """
    draft, need = pair.draft.partial, pair.target.partial.max_position_embeddings
    have = draft.max_position_embeddings
    if have < need and not pair.asked.fit_length:
        message = (
            f"draft max_position_embeddings is {have}, target max_position_embeddings is {need}"
        )
        locations = tuple(pair.both("max_position_embeddings"))
        yield finding("SD204", message, *locations, fix=_context_fix(pair, need))
    elif have <= draft.block_size:
        yield _no_room(pair)


def _context_asked(pair: Pair, length: int) -> Iterator[Finding]:
    """A length was asked for: with one block beyond it, it must fit the draft."""
    draft, limit = pair.draft.partial, pair.target.partial.max_position_embeddings
    have, asked = draft.max_position_embeddings, pair.asked.location("max_model_len")
    if have <= draft.block_size:
        yield _no_room(pair)
    elif length + draft.block_size > have:
        message = (
            f"--max-model-len is {length}, which with block_size {draft.block_size} needs "
            f"{length + draft.block_size} positions, draft max_position_embeddings is {have}"
        )
        places = (pair.at_draft("max_position_embeddings"), pair.at_draft("block_size"), asked)
        need = min(length, limit) + draft.block_size
        yield finding("SD204", message, *places, fix=_context_fix(pair, need))


def model_limit(target: Reading[TargetConfig], asked: Asked) -> Iterator[Finding]:
    """SD506, for the length that was asked for and the target. Lengths are in tokens."""
    length, limit = asked.max_model_len, target.partial.max_position_embeddings
    if length is not None and length > limit:
        yield finding(
            "SD506",
            f"--max-model-len is {length}, target max_position_embeddings is {limit}",
            place(target, "max_position_embeddings"),
            asked.location("max_model_len"),
            fix=f"--max-model-len {limit}, or less",
        )


def _no_room(pair: Pair) -> Finding:
    """Not one token can be served: a block takes all positions that the draft has."""
    have, block = pair.draft.partial.max_position_embeddings, pair.draft.partial.block_size
    return finding(
        "SD204",
        f"draft max_position_embeddings is {have}, draft block_size is {block}",
        pair.at_draft("max_position_embeddings"),
        pair.at_draft("block_size"),
        fix=f"use a draft with more than {block} positions",
    )


def _context_fix(pair: Pair, need: int) -> str:
    """The length that works, and the positions that a draft needs for the one wished for."""
    draft, limit = pair.draft.partial, pair.target.partial.max_position_embeddings
    room = draft.max_position_embeddings - draft.block_size
    longer = f"use a draft with at least {need} positions"
    if room <= 0:
        return longer
    if room >= limit:
        return f"--max-model-len {limit}, the target's max_position_embeddings"
    how = f"draft positions {draft.max_position_embeddings} minus block_size {draft.block_size}"
    return f"--max-model-len {room} ({how}), or {longer}"


def _rope_theta(pair: Pair) -> Iterator[Finding]:
    """SD205."""
    draft, target = pair.draft.partial.rope_theta, pair.target.partial.rope_theta
    if _float32(draft) != _float32(target):
        yield finding(
            "SD205",
            f"draft rope_theta is {shown(draft)}, target rope_theta is {shown(target)}",
            *pair.both("rope_theta"),
            fix=f"use a draft trained with rope_theta {shown(target)}, or the release of the "
            f"target that has {shown(draft)}",
        )


def _float32(value: float) -> bytes:
    """The bits of `value` as a 32-bit float; beyond its range the bits of infinity."""
    try:
        return struct.pack("<f", float(value))
    except OverflowError:
        return struct.pack("<f", float("inf"))


def _epsilon(pair: Pair) -> Iterator[Finding]:
    """SD217."""
    draft, target = pair.draft.partial.rms_norm_eps, pair.target.partial.rms_norm_eps
    if _float32(draft) != _float32(target):
        message = f"draft rms_norm_eps is {shown(draft)}, target rms_norm_eps is {shown(target)}"
        yield finding("SD217", message, *pair.both("rms_norm_eps"))


def _dtype(pair: Pair) -> Iterator[Finding]:
    """SD207. Both models compute in one dtype; auto means the target's."""
    dtype, by_flag = pair.asked.dtype, pair.asked.dtype != "auto"
    if not by_flag:
        dtype = pair.target.partial.dtype or "auto"
    if dtype == "float16" and pair.draft.partial.dtype == "bfloat16":
        decided = pair.asked.location("dtype") if by_flag else pair.at_target("dtype")
        yield finding(
            "SD207",
            f"draft dtype is bfloat16, {'--dtype' if by_flag else 'target dtype'} is float16",
            pair.at_draft("dtype"),
            decided,
            fix="--dtype bfloat16, or --dtype float32",
        )


def _draft_tokens(pair: Pair) -> Iterator[Finding]:
    """SD208."""
    asked, draft = pair.asked.num_speculative_tokens, pair.draft.partial
    if asked is None or asked <= draft.draft_tokens:
        return
    yield finding(
        "SD208",
        f"--num-speculative-tokens is {asked}, draft proposes {draft.draft_tokens} tokens a block "
        f"(block_size {draft.block_size}, {draft.layout})",
        pair.at_draft("block_size"),
        pair.asked.location("num_speculative_tokens"),
        fix=f"--num-speculative-tokens {draft.draft_tokens}, or fewer, or leave it out",
    )


_POSITIONS = "max_position_embeddings"

CHECKS: tuple[Check[Pair], ...] = (
    Check("SD204", (f"draft.{_POSITIONS}", "draft.block_size", f"target.{_POSITIONS}"), _context),
    Check("SD205", ("draft.rope_theta", "target.rope_theta"), _rope_theta),
    Check("SD207", ("draft.dtype", "target.dtype"), _dtype),
    Check("SD217", ("draft.rms_norm_eps", "target.rms_norm_eps", "draft.block_size"), _epsilon),
    Check("SD208", ("draft.block_size", "draft.layout"), _draft_tokens),
)
