"""Every block of the real pool, then a short decode over it: three paths, one answer.

The reference is a full forward without a pool, whose greedy choice after every prefix is read
off at once. Decoding over the pool and speculative rounds must choose the same tokens. Rounding
differs between the paths, so two tokens whose logits the reference cannot tell apart in its
dtype count as a tie, which is reported.

Where the pool stores a narrower type, the reference takes the steps of the decoding over the pool,
over keys and values that lie outside it and are rounded in the same way: equality stays exact.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from time import perf_counter

import torch
from torch import Tensor

from server.config.geometry import RESERVED_BLOCKS
from server.model.blocks import first_fault
from server.model.decode import PagedSequence, greedy_after, kept_logits, whole_logits
from server.model.dflash import BlockDrafter
from server.model.kv import BlockTable, KvPool
from server.model.qwen3 import Qwen3Target
from server.model.speculate import Speculation, Speculator

PROMPT_TOKENS = 20
NEW_TOKENS = 28

# The prompt goes in by chunks of this size, so that a chunk after the first is tested too.
CHUNK_TOKENS = 12


class SelfTestFailed(RuntimeError):
    """A block loses what is written, the paths disagree by more than rounding, or a model computes
    what is not a number.
    """


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What a passed self-test did.

    `kv_blocks`: blocks that were written and read back, the reserved one among them; `tokens`: the
    ids that greedy decoding over the pool made; `paged_steps` and `speculative_steps`: how many of
    the `new_tokens` steps each path agreed on before the end or a tie; `offered` and `accepted`:
    drafts per speculative round; `remarks`: ties, and why a part did not run; `ms`: wall time.
    """

    kv_blocks: int
    prompt_tokens: int
    new_tokens: int
    tokens: tuple[int, ...]
    paged_steps: int
    speculative_steps: int
    offered: tuple[int, ...]
    accepted: tuple[int, ...]
    remarks: tuple[str, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class _Expected:
    """The reference's answer to `asked` steps; `tokens` ends early at the first tie.

    `kept`: the type that the pool rounds to, where that is not the target's; `logits` are then
    those of each step.
    """

    target: Qwen3Target
    prompt: Sequence[int]
    tokens: Sequence[int]
    asked: int
    kept: torch.dtype | None = None
    logits: Sequence[Tensor] = ()

    @classmethod
    def after(
        cls, target: Qwen3Target, prompt: Sequence[int], made: Sequence[int], dtype: torch.dtype
    ) -> "_Expected":
        """The greedy choices along `made`, up to the first that differs from it."""
        kept = None if dtype == target.dtype else dtype
        if kept is None:
            logits: list[Tensor] = []
            chosen = greedy_after(target, prompt, made)
        else:
            logits = kept_logits(target, prompt, made, kept, CHUNK_TOKENS)
            chosen = [int(each.argmax()) for each in logits]
        pairs = enumerate(zip(chosen, made, strict=True), start=1)
        first = next((step for step, (right, taken) in pairs if right != taken), len(chosen))
        return cls(target, prompt, chosen[:first], len(made), kept, logits)

    def agreed(
        self, path: str, got: Sequence[int], same_steps: bool = True
    ) -> tuple[int, tuple[str, ...]]:
        """Steps that agree, and a remark on a tie. Raises SelfTestFailed on a difference.

        `same_steps` False: the path computes in other steps, so the pool may round otherwise.
        """
        kept = None if same_steps else self.kept
        if len(got) != self.asked:
            raise SelfTestFailed(f"{path} made {len(got)} tokens, {self.asked} were asked")
        for step, (right, taken) in enumerate(zip(self.tokens, got, strict=False)):
            if right != taken:
                return step, (self._tie(path, step, taken, kept),)
        return len(self.tokens), ()

    def _tie(self, path: str, step: int, taken: int, kept: torch.dtype | None) -> str:
        """The remark on a tie at `step`. Raises SelfTestFailed when it is none."""
        right = self.tokens[step]
        if self.logits:
            logits = self.logits[step]
        else:
            logits = whole_logits(self.target, [*self.prompt, *self.tokens[:step]])
        gap = float(logits[right] - logits[taken])
        tolerance = tie_tolerance(self.target, logits, kept)
        told = (
            f"{path} takes token {taken} at step {step}, the forward without a pool {right}; "
            f"their logits differ by {gap:.3g}, rounding explains {tolerance:.3g}"
        )
        if gap > tolerance:
            raise SelfTestFailed(told)
        return f"tie: {told}"


def tie_tolerance(target: Qwen3Target, logits: Tensor, kept: torch.dtype | None = None) -> float:
    """How far two ways to compute the same logits may lie apart by rounding alone.

    Each layer rounds the residual stream twice by at most eps / 2, like a random walk, in either
    path: sqrt(layers) * eps together. To the weights' eps comes that of summing `hidden_size`
    products in the accumulator's precision. Relative to the largest logit.

    Where keys and values are kept in a coarser type, a number that lies eps apart in two paths is
    rounded to another neighbour once in coarse / eps times, and is then coarse apart: as a root
    mean square, sqrt(eps * coarse).
    """
    config, eps = target.config, torch.finfo(target.dtype).eps
    accumulator = torch.promote_types(target.dtype, torch.float32)
    each = eps + torch.finfo(accumulator).eps * sqrt(config.hidden_size)
    if kept is not None:
        each += sqrt(eps * torch.finfo(kept).eps)
    relative = sqrt(config.num_hidden_layers) * each
    return relative * float(logits.abs().max())


def self_test(
    target: Qwen3Target,
    drafter: BlockDrafter | None,
    pool: KvPool,
    max_model_len: int,
    draft_tokens: int | None = None,
) -> SelfTest:
    """Write and read back every block, then decode a fixed prompt by every path and compare.

    The pool is all zeros afterwards.

    Lengths stay within `max_model_len` and the pool. `draft_tokens` caps the drafts of a round.
    Raises SelfTestFailed, and KvPoolError when the pool has no room for one token.
    """
    began = perf_counter()
    if fault := first_fault(pool):
        raise SelfTestFailed(fault)
    prompt_tokens, new_tokens = _lengths(drafter, pool, max_model_len)
    prompt = [(101 + 7919 * i) % target.config.vocab_size for i in range(prompt_tokens)]
    _require_finite("the target's logits", whole_logits(target, prompt))
    tokens = _paged(target, pool, prompt, new_tokens)
    expected = _Expected.after(target, prompt, tokens, pool.target.dtype)
    paged_steps, remarks = expected.agreed("paged decoding", tokens)
    if not new_tokens:
        remarks += (f"no room for a new token in {max_model_len} tokens: nothing compared",)
    speculation, steps = Speculation((), (), ()), 0
    if drafter is not None:
        speculator = Speculator.of(target, drafter, pool, draft_tokens)
        speculation, steps, ties = _speculative(expected, speculator)
        remarks += ties
    return SelfTest(
        kv_blocks=pool.shape.num_blocks,
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        tokens=tuple(tokens),
        paged_steps=paged_steps,
        speculative_steps=steps,
        offered=speculation.offered,
        accepted=speculation.accepted,
        remarks=remarks,
        ms=round((perf_counter() - began) * 1000, 3),
    )


def _lengths(drafter: BlockDrafter | None, pool: KvPool, max_model_len: int) -> tuple[int, int]:
    """Prompt and new tokens that fit; a block's rows reach past the last token."""
    tail = 0 if drafter is None else drafter.config.block_size
    room = min(max_model_len, pool.usable_tokens - tail)
    prompt = max(1, min(PROMPT_TOKENS, room // 2))
    return prompt, max(0, min(NEW_TOKENS, room - prompt))


def _paged(target: Qwen3Target, pool: KvPool, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """Decode over the pool, on blocks from both of its ends."""
    table = _poisoned(pool, _ends(pool), len(prompt) + new_tokens)
    tokens = PagedSequence(target, pool, table).decode(prompt, new_tokens, CHUNK_TOKENS)
    pool.fill(table, 0.0)
    return tokens


def _speculative(
    expected: _Expected, speculator: Speculator
) -> tuple[Speculation, int, tuple[str, ...]]:
    """Speculative rounds, on blocks from the middle of the pool outwards."""
    pool, new_tokens = speculator.pool, expected.asked
    middle_out = reversed(list(_ends(pool)))
    reach = len(expected.prompt) + new_tokens + speculator.drafter.config.block_size
    table = _poisoned(pool, middle_out, reach)
    made = speculator.run(table, expected.prompt, new_tokens)
    if new_tokens > 0:
        hidden = speculator.block_hidden(table, [*expected.prompt, *made.tokens])
        _require_finite("the drafter's hidden states", hidden)
    pool.fill(table, 0.0)
    steps, ties = expected.agreed("speculative decoding", made.tokens, same_steps=False)
    return made, steps, ties


def _ends(pool: KvPool) -> Iterator[int]:
    """The usable block ids from both ends towards the middle: last, first, last but one, ..."""
    low, high = RESERVED_BLOCKS, pool.shape.num_blocks - 1
    while low <= high:
        yield high
        if low < high:
            yield low
        low, high = low + 1, high - 1


def _poisoned(pool: KvPool, ids: Iterable[int], tokens: int) -> BlockTable:
    """A table over the first of `ids`, filled with NaN: what is read before it is written shows."""
    blocks = -(-tokens // pool.shape.block_tokens)
    table = pool.table(list(islice(ids, blocks)))
    pool.fill(table, float("nan"))
    return table


def _require_finite(what: str, values: Tensor) -> None:
    """Raise SelfTestFailed when a value is infinite or not a number."""
    wrong = int((~torch.isfinite(values)).sum())
    if wrong:
        raise SelfTestFailed(f"{what}: {wrong} of {values.numel()} values are not finite")
