"""The worst step that a server with these settings can meet, run for its memory alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import torch
from torch import Tensor

from server.config.geometry import RESERVED_BLOCKS
from server.model.attention import PagedContext
from server.model.dflash import BlockDrafter, propose
from server.model.kv import BlockTable, KvPool, Span
from server.model.qwen3 import Qwen3Target

# Enough that the emulated tables are not all one block; more would only cost memory.
MOST_BLOCKS = 8

# Context of the short sequences: not zero, so that they too are read back from the pool.
SHORT_TOKENS = 1


@dataclass(frozen=True, slots=True)
class StepShape:
    """The limits that bound one step.

    `prefill_tokens`: rows of a prefill step; `num_seqs`: sequences of a decode step;
    `verify_tokens`: rows of each in a verify step (anchor and drafts; 1 without a drafter);
    `max_model_len`: the longest context in tokens.
    """

    prefill_tokens: int
    num_seqs: int
    verify_tokens: int
    max_model_len: int

    @property
    def requests(self) -> int:
        """How many sequences the larger of both steps has."""
        return max(self.num_seqs, -(-self.prefill_tokens // self.max_model_len))

    def at_most(self, requests: int) -> "StepShape":
        """The same with no more than so many sequences in either step."""
        tokens = min(self.prefill_tokens, requests * self.max_model_len)
        return replace(self, prefill_tokens=tokens, num_seqs=min(self.num_seqs, requests))


def blocks_for_worst_step(shape: StepShape, block_tokens: int) -> int:
    """Blocks that a pool for `worst_step` needs, the reserved one included.

    Few: its block tables repeat, so a long context costs the work but not the memory.
    """
    whole = -(-shape.max_model_len // block_tokens)
    return RESERVED_BLOCKS + min(whole, MOST_BLOCKS)


@torch.inference_mode()
def worst_step(
    target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, shape: StepShape
) -> None:
    """Run the largest prefill step, then the largest draft-and-verify (or decode) step.

    The prefill ends at the longest context, the costliest place for it. One sequence of the
    second step is at the longest context, the others are short: sequences are read back one at a
    time, so more long ones would not need more memory. Its results mean nothing. Raises torch's
    out-of-memory errors, and KvPoolError when the pool lacks the draft's part.
    """
    _prefill(target, drafter, pool, shape)
    _decode(target, drafter, pool, shape)


def _prefill(
    target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, shape: StepShape
) -> None:
    """A prefill step of `prefill_tokens` rows, captured and put in the draft's context."""
    table = _repeating(pool, shape.max_model_len)
    spans, left = [], shape.prefill_tokens
    while left > 0:
        rows = min(left, shape.max_model_len)
        spans.append(Span(shape.max_model_len - rows, rows, table))
        left -= rows
    hidden, features = _target_step(target, drafter, pool, spans)
    last = torch.tensor([span.rows for span in spans], device=target.device).cumsum(0) - 1
    target.logits(hidden[last]).argmax(-1)
    _extend(drafter, pool, features, spans)


def _decode(
    target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, shape: StepShape
) -> None:
    """One block per sequence, then the verify step; without a drafter, a decode step."""
    longest = shape.max_model_len - 1
    starts = [longest] + [min(SHORT_TOKENS, longest)] * (shape.num_seqs - 1)
    if drafter is not None:
        _draft(target, drafter, pool, starts, shape.verify_tokens - 1)
    spans = _spans(pool, starts, shape.verify_tokens)
    hidden, features = _target_step(target, drafter, pool, spans)
    target.logits(hidden).argmax(-1)
    _extend(drafter, pool, features, spans)


def _draft(
    target: Qwen3Target, drafter: BlockDrafter, pool: KvPool, starts: Sequence[int], count: int
) -> None:
    """Draft `count` tokens per sequence; `starts` are the anchors' positions."""
    anchors = torch.zeros(len(starts), dtype=torch.int64, device=target.device)
    spans = _spans(pool, starts, drafter.config.block_size)
    hidden = propose(drafter, target.embed, pool.draft_storage, anchors, spans)
    drafter.drafts(hidden, anchors, count, target.logits)


def _extend(
    drafter: BlockDrafter | None, pool: KvPool, features: Tensor, spans: Sequence[Span]
) -> None:
    """Put all rows in the draft's context, as when every draft is accepted."""
    if drafter is not None:
        drafter.extend(features, pool.draft_storage, spans)


def _target_step(
    target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, spans: Sequence[Span]
) -> tuple[Tensor, Tensor]:
    """A target step over the spans, with the drafter's layers captured."""
    rows = sum(span.rows for span in spans)
    tokens = torch.zeros(rows, dtype=torch.int64, device=target.device)
    capture = () if drafter is None else drafter.config.target_layer_ids
    step = target(tokens, PagedContext(pool.target, spans), capture)
    return step.hidden, step.features


def _spans(pool: KvPool, starts: Sequence[int], rows: int) -> list[Span]:
    """One span of `rows` rows per start, on tables that are just long enough."""
    return [Span(start, rows, _repeating(pool, start + rows)) for start in starts]


def _repeating(pool: KvPool, tokens: int) -> BlockTable:
    """A table over `tokens` positions that goes round the pool's usable blocks."""
    usable = range(RESERVED_BLOCKS, pool.shape.num_blocks)
    blocks = -(-tokens // pool.shape.block_tokens)
    return pool.table(list(islice(cycle(usable), blocks)))
