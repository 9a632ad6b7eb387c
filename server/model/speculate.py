"""Greedy speculative decoding of one sequence: draft a block, verify it in one target step.

A round keeps three facts: every committed token but the last (the anchor) has its keys and values
in the target's pool and its context in the draft's; the anchor is where both models go on. The
schedule is that of z-lab/dflash dflash/model.py; what it commits equals plain greedy decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from server.model.attention import PagedContext
from server.model.decode import PREFILL_CHUNK_TOKENS, as_tokens
from server.model.dflash import BlockDrafter, propose
from server.model.kv import BlockTable, KvPool, Span
from server.model.qwen3 import Qwen3Target


@dataclass(frozen=True, slots=True)
class Speculation:
    """The new tokens, and for each round how many drafts were offered and how many accepted."""

    tokens: tuple[int, ...]
    offered: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Speculator:
    """A served pair over one pool. `draft_tokens` drafts a round, at most the block's K."""

    target: Qwen3Target
    drafter: BlockDrafter
    pool: KvPool
    draft_tokens: int

    @classmethod
    def of(
        cls, target: Qwen3Target, drafter: BlockDrafter, pool: KvPool, limit: int | None = None
    ) -> "Speculator":
        """The pair with its trained block length K, or `limit` drafts if that is fewer."""
        trained = drafter.config.draft_tokens
        return cls(target, drafter, pool, trained if limit is None else min(limit, trained))

    @torch.inference_mode()
    def run(self, table: BlockTable, prompt: Sequence[int], new_tokens: int) -> Speculation:
        """Commit `new_tokens` tokens after `prompt`.

        The table must cover prompt + new tokens + the draft's block size, since a block's rows
        reach past what is committed; else (or in a pool without a draft part) KvPoolError.
        """
        table.require(len(prompt) + new_tokens + self.drafter.config.block_size)
        tokens = list(prompt)
        end = len(prompt) + new_tokens
        offered, accepted = [], []
        if new_tokens > 0:
            tokens.append(self._prefill(table, prompt))
        while len(tokens) < end:
            drafts = self.draft(table, tokens, min(self.draft_tokens, end - len(tokens) - 1))
            checked = self._verify(table, tokens, drafts)
            tokens += checked
            offered.append(len(drafts))
            accepted.append(len(checked) - 1)
        return Speculation(tuple(tokens[len(prompt) :]), tuple(offered), tuple(accepted))

    def draft(self, table: BlockTable, tokens: Sequence[int], count: int) -> list[int]:
        """`count` drafts after `tokens`, whose last one is the anchor.

        The pool must hold the context of every token before the anchor.
        """
        if count == 0:
            return []
        anchors = as_tokens(tokens[-1:], self.target.device)
        hidden = self.block_hidden(table, tokens)
        found = self.drafter.drafts(hidden, anchors, count, self.target.logits)
        return [int(token) for token in found[0].tolist()]

    @torch.inference_mode()
    def block_hidden(self, table: BlockTable, tokens: Sequence[int]) -> Tensor:
        """The draft's hidden states `[1, block size, hidden]` of the block after `tokens`.

        The whole block runs however few drafts are wanted: its rows see each other, and it was
        trained at one length.
        """
        anchors = as_tokens(tokens[-1:], self.target.device)
        span = Span(len(tokens) - 1, self.drafter.config.block_size, table)
        return propose(self.drafter, self.target.embed, self.pool.draft_storage, anchors, [span])

    def _prefill(self, table: BlockTable, prompt: Sequence[int]) -> int:
        """Fill both pools with the prompt, chunk by chunk; the first new token."""
        token = 0
        for start in range(0, len(prompt), PREFILL_CHUNK_TOKENS):
            rows = prompt[start : start + PREFILL_CHUNK_TOKENS]
            hidden, features = self._step(table, rows, start)
            self.drafter.extend(features, self.pool.draft_storage, [Span(start, len(rows), table)])
            token = int(self.target.logits(hidden[-1]).argmax())
        return token

    def _verify(self, table: BlockTable, tokens: list[int], drafts: list[int]) -> list[int]:
        """The tokens to commit: the accepted drafts and the target's own next one."""
        start = len(tokens) - 1
        hidden, features = self._step(table, [tokens[-1], *drafts], start)
        chosen = self.target.logits(hidden).argmax(-1).tolist()
        agreed = 0
        while agreed < len(drafts) and drafts[agreed] == chosen[agreed]:
            agreed += 1
        committed = Span(start, agreed + 1, table)
        self.drafter.extend(features[: agreed + 1], self.pool.draft_storage, [committed])
        return [int(token) for token in chosen[: agreed + 1]]

    def _step(self, table: BlockTable, rows: Sequence[int], start: int) -> tuple[Tensor, Tensor]:
        """One target step over the pool: hidden rows and captured features."""
        context = PagedContext(self.pool.target, [Span(start, len(rows), table)])
        step = self.target(
            as_tokens(rows, self.target.device), context, self.drafter.config.target_layer_ids
        )
        return step.hidden, step.features
