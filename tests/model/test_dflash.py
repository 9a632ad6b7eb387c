"""The block drafter against a second, plain writing of its equations in float64."""

import pytest
import torch
from torch import Tensor

from server.config.records import BlockDraft
from server.model.decode import as_tokens
from server.model.dflash import BlockDrafter, propose
from server.model.kv import BlockTable, KvPool, Span
from server.model.qwen3 import Qwen3Target
from tests.model import plain
from tests.model.tiny import (
    CPU,
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

DRAFTS = [
    make_draft(),
    make_dspark(),
    make_dspark(markov_rank=0, markov_head_type=None),
    make_draft(block_size=2, target_layer_ids=(1,), num_hidden_layers=1),
    make_draft(num_attention_heads=6, num_key_value_heads=1, head_dim=8, rope_theta=1e4),
]


def make_models(draft: BlockDraft) -> tuple[Qwen3Target, BlockDrafter]:
    return make_target(make_target_config(), torch.float64), make_drafter(draft, torch.float64)


def captured(target: Qwen3Target, draft: BlockDraft, tokens: list[int]) -> Tensor:
    return run_whole(target, tokens, draft.target_layer_ids).features


def plain_block(target: Qwen3Target, drafter: BlockDrafter, tokens: list[int]) -> Tensor:
    """The block after `tokens` (the last one is the anchor), from scratch."""
    draft = drafter.config
    block = [tokens[-1]] + [draft.mask_token_id] * (draft.block_size - 1)
    features = captured(target, draft, tokens)[:-1]
    embedded = target.embed(as_tokens(block, CPU))
    return plain.block_hidden(weights_of(drafter), draft, features, embedded)


def cached_block(
    target: Qwen3Target, drafter: BlockDrafter, pool: KvPool, table: BlockTable, tokens: list[int]
) -> Tensor:
    span = Span(len(tokens) - 1, drafter.config.block_size, table)
    anchors = as_tokens(tokens[-1:], CPU)
    return propose(drafter, target.embed, pool.draft_storage, anchors, [span])[0]


@pytest.mark.parametrize("draft", DRAFTS)
def test_first_block_is_the_plain_equations(draft: BlockDraft) -> None:
    target, drafter = make_models(draft)
    pool = make_pool(target, drafter)
    table = scattered(pool, 8)
    tokens = random_tokens(14)
    features = captured(target, draft, tokens)
    drafter.extend(features[:-1], pool.draft_storage, [Span(0, 13, table)])
    got = cached_block(target, drafter, pool, table, tokens)
    expected = plain_block(target, drafter, tokens)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("draft", DRAFTS[:3])
def test_cached_rounds_equal_recomputation(draft: BlockDraft) -> None:
    target, drafter = make_models(draft)
    pool = make_pool(target, drafter)
    table = scattered(pool, 12)
    tokens = random_tokens(30)
    features = captured(target, draft, tokens)
    known = 0
    for committed in (1, 8, 9, 12, 17, 22, 29):
        rows = features[known:committed]
        drafter.extend(rows, pool.draft_storage, [Span(known, committed - known, table)])
        known = committed
        prefix = tokens[: committed + 1]
        got = cached_block(target, drafter, pool, table, prefix)
        expected = plain_block(target, drafter, prefix)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


def test_later_rounds_leave_earlier_context_as_it_was() -> None:
    target, drafter = make_models(make_draft())
    pool = make_pool(target, drafter)
    table = scattered(pool, 8)
    tokens = random_tokens(16)
    features = captured(target, drafter.config, tokens)
    slots = table.slots(0, 9)
    flat = pool.draft_storage.flatten(2, 3)
    drafter.extend(features[:9], pool.draft_storage, [Span(0, 9, table)])
    before = flat[:, :, slots].clone()
    cached_block(target, drafter, pool, table, tokens[:10])
    drafter.extend(features[9:13], pool.draft_storage, [Span(9, 4, table)])
    cached_block(target, drafter, pool, table, tokens[:14])
    assert torch.isfinite(before).all()
    assert torch.equal(flat[:, :, slots], before)


def test_blocks_of_one_step_do_not_see_each_other() -> None:
    draft = make_dspark()
    target, drafter = make_models(draft)
    pool = make_pool(target, drafter)
    ids = scattered(pool, 16).ids.tolist()
    tables = pool.table(ids[:8]), pool.table(ids[8:])
    prompts = random_tokens(11), random_tokens(6, seed=9)
    features = [captured(target, draft, tokens)[:-1] for tokens in prompts]
    spans = [Span(0, 10, tables[0]), Span(0, 5, tables[1])]
    drafter.extend(torch.cat(features), pool.draft_storage, spans)
    anchors = as_tokens([prompts[0][-1], prompts[1][-1]], CPU)
    blocks = [Span(10, draft.block_size, tables[0]), Span(5, draft.block_size, tables[1])]
    hidden = propose(drafter, target.embed, pool.draft_storage, anchors, blocks)
    found = drafter.drafts(hidden, anchors, draft.draft_tokens, target.logits)
    head = weights_of(target)["lm_head.weight"]
    for row, tokens in enumerate(prompts):
        expected = plain_block(target, drafter, tokens)
        torch.testing.assert_close(hidden[row], expected, rtol=0, atol=1e-9)
        wanted = plain.drafts(weights_of(drafter), draft, expected, head, tokens[-1])
        assert found[row].tolist() == wanted


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("seed", range(2))
def test_drafts_are_the_rows_of_the_layout(draft: BlockDraft, seed: int) -> None:
    target = make_target(make_target_config(), torch.float64)
    drafter = make_drafter(draft, torch.float64, seed)
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(draft.block_size, 24, generator=generator, dtype=torch.float64)
    head = weights_of(target)["lm_head.weight"]
    expected = plain.drafts(weights_of(drafter), draft, hidden, head, 17)
    anchors = as_tokens([17], CPU)
    for count in range(1, draft.draft_tokens + 1):
        found = drafter.drafts(hidden[None], anchors, count, target.logits)
        assert found[0].tolist() == expected[:count]
    assert len(expected) == draft.draft_tokens


def test_block_is_the_anchor_then_masks() -> None:
    drafter = make_drafter(make_draft(block_size=4, mask_token_id=60), torch.float32)
    block = drafter.block_tokens(as_tokens([7, 8], CPU))
    assert block.tolist() == [[7, 60, 60, 60], [8, 60, 60, 60]]
