"""Whether the largest step can ever fit: told before a weight is read, and before it is built.

A step of millions of rows is built for minutes before the allocator says no. What each row takes
at least is known from the configs; the profile measures the rest.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from server.config.records import BlockDraft, TargetConfig
from server.config.rules import finding
from server.findings import Finding, Location
from server.memory.shape import RunShape
from server.memory.units import apart
from server.options import MAX_REQUESTS
from server.weights.parts import Share, part_config

_TOKENS, _SEQS = "--max-num-batched-tokens", "--max-num-seqs"
_TOKEN_BYTES = 8  # int64
_MLP_TENSORS = 3  # the activated gate, what it is multiplied with, and the product


class RowBytes(NamedTuple):
    """What one row of a step holds at one moment at least, in bytes."""

    prefill: int
    verify: int


def row_bytes(
    target: TargetConfig, draft: BlockDraft | None, dtype_bytes: int, share: Share
) -> RowBytes:
    """The least that a row takes on the rank of `share`; a test compares it with real steps.

    In the target's layers a row holds its token, itself, what was captured of it and the inside
    of an MLP; at the end of a verify step itself, what was captured, and its logits.
    """
    captured = 0 if draft is None else len(draft.target_layer_ids)
    kept = target.hidden_size * (1 + captured)
    inside = _MLP_TENSORS * part_config(target, share).intermediate_size
    in_layer = _TOKEN_BYTES + dtype_bytes * (kept + inside)
    return RowBytes(in_layer, max(in_layer, dtype_bytes * (kept + target.vocab_size)))


def too_large(
    shape: RunShape, rows: RowBytes, room_bytes: int, longest_tokens: int
) -> tuple[Finding, ...]:
    """SD504 for each flag whose step has no room, with the largest value that may have."""
    tokens, seqs = shape.max_num_batched_tokens, shape.max_num_seqs
    most_tokens = min(room_bytes // rows.prefill, MAX_REQUESTS * longest_tokens)
    most_seqs = min(room_bytes // (shape.verify_tokens * rows.verify), MAX_REQUESTS)
    steps = (
        _Step("prefill", _TOKENS, tokens, tokens, rows.prefill, most_tokens),
        _Step("verify", _SEQS, seqs, seqs * shape.verify_tokens, rows.verify, most_seqs),
    )
    return tuple(_too_large(shape, steps, room_bytes))


class _Step(NamedTuple):
    """One of both steps, and the flag that sets its size; `most` is a value that may fit."""

    name: str
    flag: str
    value: int
    rows: int
    row_bytes: int
    most: int


def _too_large(shape: RunShape, steps: Iterable[_Step], room_bytes: int) -> Iterator[Finding]:
    for name, flag, value, rows, least_bytes, most in steps:
        needed_bytes = rows * least_bytes
        if needed_bytes <= room_bytes:
            continue
        needed, room = apart(needed_bytes, room_bytes)
        yield finding(
            "SD504",
            f"{flag} is {value}: a {name} step of {rows} rows takes at least {needed}, "
            f"there is room for {room}",
            _flag(shape, flag, value),
            Location("step", value=needed_bytes, source="in bytes, at least"),
            Location("room", value=room_bytes, source="bytes that are left for it"),
            fix=_less(flag, most),
        )


def too_many(shape: RunShape, longest_tokens: int) -> tuple[Finding, ...]:
    """SD705 where a prefill of so many tokens is more requests than are served at once."""
    tokens = shape.max_num_batched_tokens
    requests = -(-tokens // longest_tokens)
    if requests <= MAX_REQUESTS:
        return ()
    found = finding(
        "SD705",
        f"{_TOKENS} is {tokens}, and no request is longer than {longest_tokens} tokens: a step "
        f"would have {requests} requests, at most {MAX_REQUESTS} are served",
        _flag(shape, _TOKENS, tokens),
        fix=f"{_TOKENS} {MAX_REQUESTS * longest_tokens} or less, or longer requests",
    )
    return (found,)


def _less(flag: str, most: int) -> str:
    if most < 1:
        return "no smaller value fits here: use a larger device or a smaller model"
    return f"{flag} {most} or less; the step itself, measured after the load, may need less still"


def _flag(shape: RunShape, flag: str, value: int) -> Location:
    name = flag.removeprefix("--").replace("-", "_")
    return Location("flag", flag=flag, value=value, source=shape.sources.get(name))
