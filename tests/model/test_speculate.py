"""Speculative rounds commit the greedy tokens, and accept exactly the matching drafts."""

from collections.abc import Sequence

import pytest
import torch

from server.config.records import BlockDraft
from server.model.decode import as_tokens
from server.model.kv import BlockTable, KvPoolError
from server.model.speculate import Speculator
from tests.model import plain
from tests.model.tiny import (
    CPU,
    decode_whole,
    make_draft,
    make_drafter,
    make_dspark,
    make_pool,
    make_target,
    make_target_config,
    random_tokens,
    run_whole,
    scattered,
    weights_of,
)

# So few tokens that random drafts are often right.
VOCAB = 3
PROMPT = random_tokens(9, VOCAB)
SMALL = {"vocab_size": VOCAB, "mask_token_id": 2}
DRAFTS = [make_draft(**SMALL), make_dspark(**SMALL), make_dspark(block_size=3, **SMALL)]


def make_speculator(draft: BlockDraft, seed: int = 0, limit: int | None = None) -> Speculator:
    config = make_target_config(vocab_size=VOCAB)
    target = make_target(config, torch.float64, seed)
    drafter = make_drafter(draft, torch.float64, seed + 50)
    return Speculator.of(target, drafter, make_pool(target, drafter), limit)


def plain_drafts(pair: Speculator, tokens: list[int], count: int) -> list[int]:
    """Drafts after `tokens` without pool, cache or the server's drafter."""
    draft, weights = pair.drafter.config, weights_of(pair.drafter)
    features = run_whole(pair.target, tokens, draft.target_layer_ids).features[:-1]
    block = [tokens[-1]] + [draft.mask_token_id] * (draft.block_size - 1)
    embedded = pair.target.embed(as_tokens(block, CPU))
    hidden = plain.block_hidden(weights, draft, features, embedded)
    head = weights_of(pair.target)["lm_head.weight"]
    return plain.drafts(weights, draft, hidden, head, tokens[-1])[:count]


def plain_rounds(pair: Speculator, greedy: Sequence[int]) -> tuple[list[int], list[int]]:
    """Drafts offered and accepted per round, given the greedy answer."""
    offered, accepted, done = [], [], 1
    while done < len(greedy):
        count = min(pair.draft_tokens, len(greedy) - done - 1)
        drafts = plain_drafts(pair, [*PROMPT, *greedy[:done]], count)
        matches = [a == b for a, b in zip(drafts, greedy[done:], strict=False)]
        agreed = (*matches, False).index(False)
        offered.append(count)
        accepted.append(agreed)
        done += agreed + 1
    return offered, accepted


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("seed", range(2))
def test_rounds_commit_the_greedy_tokens(draft: BlockDraft, limit: int | None, seed: int) -> None:
    pair = make_speculator(draft, seed, limit)
    greedy = decode_whole(pair.target, PROMPT, 24)
    made = pair.run(scattered(pair.pool, 12, seed), PROMPT, 24)
    assert list(made.tokens) == greedy
    offered, accepted = plain_rounds(pair, greedy)
    assert list(made.offered) == offered
    assert list(made.accepted) == accepted


@pytest.mark.parametrize("draft", DRAFTS)
def test_some_drafts_are_accepted_and_some_are_not(draft: BlockDraft) -> None:
    rounds: list[tuple[int, int]] = []
    for seed in range(4):
        pair = make_speculator(draft, seed)
        made = pair.run(scattered(pair.pool, 12), PROMPT, 24)
        rounds += zip(made.offered, made.accepted, strict=True)
    assert any(accepted > 1 for _, accepted in rounds)
    assert any(accepted < offered for offered, accepted in rounds)


class Oracle(Speculator):
    """Drafts the greedy tokens, wrong from draft number `wrong_from` on."""

    greedy: Sequence[int]
    wrong_from: int

    def draft(self, table: BlockTable, tokens: Sequence[int], count: int) -> list[int]:
        done = len(tokens) - len(PROMPT)
        right = list(self.greedy[done : done + count])
        return [t if i < self.wrong_from else (t + 1) % VOCAB for i, t in enumerate(right)]


@pytest.mark.parametrize(
    ("wrong_from", "accepted"),
    [(0, (0,) * 11), (2, (2, 2, 2, 1)), (4, (4, 4, 0))],
)
def test_the_longest_matching_prefix_is_accepted(
    wrong_from: int, accepted: tuple[int, ...]
) -> None:
    pair = make_speculator(make_draft(**SMALL))
    oracle = Oracle(pair.target, pair.drafter, pair.pool, 4)
    object.__setattr__(oracle, "greedy", decode_whole(pair.target, PROMPT, 12))
    object.__setattr__(oracle, "wrong_from", wrong_from)
    made = oracle.run(scattered(pair.pool, 12), PROMPT, 12)
    assert made.tokens == tuple(oracle.greedy)
    assert made.accepted == accepted


def test_limit_above_the_block_means_the_block() -> None:
    assert make_speculator(make_draft(**SMALL), limit=9).draft_tokens == 4
    assert make_speculator(make_dspark(**SMALL), limit=9).draft_tokens == 5
    assert make_speculator(make_dspark(**SMALL), limit=2).draft_tokens == 2


def test_table_must_cover_the_last_block() -> None:
    pair = make_speculator(make_draft(**SMALL))
    table = scattered(pair.pool, 5)  # 20 tokens = 9 + 6 + block of 5
    assert len(pair.run(table, PROMPT, 6).tokens) == 6
    with pytest.raises(KvPoolError, match="21 tokens"):
        pair.run(table, PROMPT, 7)


def test_pool_must_have_a_draft_part() -> None:
    pair = make_speculator(make_draft(**SMALL))
    bare = Speculator.of(pair.target, pair.drafter, make_pool(pair.target))
    with pytest.raises(KvPoolError, match="without a drafter"):
        bare.run(scattered(bare.pool, 12), PROMPT, 4)


@pytest.mark.parametrize(("new_tokens", "rounds"), [(0, 0), (1, 0), (2, 1)])
def test_few_tokens_need_few_rounds(new_tokens: int, rounds: int) -> None:
    pair = make_speculator(make_draft(**SMALL))
    made = pair.run(scattered(pair.pool, 12), PROMPT, new_tokens)
    assert len(made.tokens) == new_tokens
    assert len(made.accepted) == rounds
