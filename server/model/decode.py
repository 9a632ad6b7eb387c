"""Greedy decoding of one sequence: without any pool, and over the paged pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from server.model.attention import KeptContext, PagedContext, WholeContext
from server.model.kv import BlockTable, KvPool, Span
from server.model.qwen3 import Qwen3Target

PREFILL_CHUNK_TOKENS = 512


def as_tokens(tokens: Sequence[int], device: torch.device) -> Tensor:
    """Token ids as an int64 tensor `[len(tokens)]`."""
    return torch.tensor(tokens, dtype=torch.int64, device=device)


@torch.inference_mode()
def whole_logits(target: Qwen3Target, tokens: Sequence[int]) -> Tensor:
    """Next-token logits `[vocab]` after `tokens`, all of them computed anew, no pool involved."""
    context = WholeContext(len(tokens), target.device)
    step = target(as_tokens(tokens, target.device), context)
    return target.logits(step.hidden[-1])


@torch.inference_mode()
def greedy_after(target: Qwen3Target, prompt: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """The greedy choice after `prompt` and each shorter prefix of `tokens`: one full forward.

    Where the choices equal `tokens`, a decode that recomputes every step makes the same ones,
    since a causal model's rows do not depend on later tokens.
    """
    if not tokens:
        return []
    rows = [*prompt, *tokens[:-1]]
    step = target(as_tokens(rows, target.device), WholeContext(len(rows), target.device))
    chosen: list[int] = target.logits(step.hidden[len(prompt) - 1 :]).argmax(-1).tolist()
    return chosen


@torch.inference_mode()
def kept_logits(
    target: Qwen3Target, prompt: Sequence[int], tokens: Sequence[int], kept: torch.dtype, chunk: int
) -> list[Tensor]:
    """Next-token logits `[vocab]` after `prompt` and each shorter prefix of `tokens`, no pool.

    Runs the steps of `PagedSequence.decode` with chunks of `chunk` tokens, over keys and values
    rounded to `kept`. Where that is coarse, two ways to compute a number may round it far apart,
    so only the same steps give the same result.
    """
    cuts = [*range(0, len(prompt), chunk), *range(len(prompt), len(prompt) + len(tokens))]
    rows, found = [*prompt, *tokens], []
    layers: dict[int, tuple[Tensor, Tensor]] = {}
    for start, end in pairwise(cuts):
        context = KeptContext(start, end - start, kept, layers, target.device)
        step = target(as_tokens(rows[start:end], target.device), context)
        if end >= len(prompt):
            found.append(target.logits(step.hidden[-1]))
    return found


@dataclass(frozen=True, slots=True)
class PagedSequence:
    """One sequence of a target over a pool. Its steps raise KvPoolError past the table's end."""

    target: Qwen3Target
    pool: KvPool
    table: BlockTable

    @torch.inference_mode()
    def logits(self, tokens: Sequence[int], start: int) -> Tensor:
        """Next-token logits `[vocab]` after `tokens`, which begin at position `start`.

        The pool must hold the positions before `start`; afterwards it holds these too.
        """
        context = PagedContext(self.pool.target, [Span(start, len(tokens), self.table)])
        step = self.target(as_tokens(tokens, self.target.device), context)
        return self.target.logits(step.hidden[-1])

    def decode(
        self, prompt: Sequence[int], new_tokens: int, chunk_tokens: int = PREFILL_CHUNK_TOKENS
    ) -> list[int]:
        """Greedy tokens: the prompt in chunks of at most `chunk_tokens`, then a row a step."""
        tokens = list(prompt)
        known = 0
        while len(tokens) < len(prompt) + new_tokens:
            rows = tokens[known : known + chunk_tokens]
            logits = self.logits(rows, known)
            known += len(rows)
            if known == len(tokens):
                tokens.append(int(logits.argmax()))
        return tokens[len(prompt) :]
