"""Greedy decoding over the pool equals decoding without one."""

import pytest
import torch

from server.model.decode import PagedSequence, greedy_after, kept_logits, whole_logits
from server.model.kv import KvPoolError, torch_dtype
from tests.model.tiny import (
    decode_whole,
    make_pool,
    make_target,
    make_target_config,
    random_tokens,
    scattered,
)


@pytest.mark.parametrize("chunk", [512, 4, 3, 1])
@pytest.mark.parametrize("seed", range(2))
def test_paged_tokens_are_the_greedy_tokens(seed: int, chunk: int) -> None:
    target = make_target(make_target_config(), torch.float64, seed)
    pool = make_pool(target)
    prompt = random_tokens(11, seed=seed)
    expected = decode_whole(target, prompt, 14)
    paged = PagedSequence(target, pool, scattered(pool, 7, seed))
    assert paged.decode(prompt, 14, chunk) == expected
    assert len(set(expected)) > 3


def test_table_must_cover_the_rows_written() -> None:
    target = make_target(make_target_config(), torch.float64)
    pool = make_pool(target)
    paged = PagedSequence(target, pool, scattered(pool, 3))
    prompt = random_tokens(8)
    assert len(paged.decode(prompt, 5)) == 5  # the fifth token itself needs no slot
    with pytest.raises(KvPoolError, match="13 tokens"):
        paged.decode(prompt, 6)


def test_no_new_token_is_no_step() -> None:
    target = make_target(make_target_config(), torch.float64)
    pool = make_pool(target)
    assert PagedSequence(target, pool, scattered(pool, 1)).decode([3], 0) == []
    assert greedy_after(target, [3], []) == []


@pytest.mark.parametrize("seed", range(3))
def test_choices_read_off_at_once_are_those_of_recomputing_every_step(seed: int) -> None:
    target = make_target(make_target_config(), torch.float64, seed)
    prompt = random_tokens(9, seed=seed)
    tokens = decode_whole(target, prompt, 12)
    assert greedy_after(target, prompt, tokens) == tokens
    other = [*tokens[:5], (tokens[5] + 1) % 61, *tokens[6:]]
    chosen = greedy_after(target, prompt, other)
    assert chosen[:6] == tokens[:6]
    assert chosen[6] == decode_whole(target, [*prompt, *other[:6]], 1)[0]


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "bfloat16"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_narrow_pool_gives_what_rounding_alone_gives(dtype: torch.dtype, name: str) -> None:
    target = make_target(make_target_config(), dtype)
    prompt, kept = random_tokens(11), torch_dtype(name)
    pool = make_pool(target, stored=(name, name))
    made = PagedSequence(target, pool, scattered(pool, 7)).decode(prompt, 14, 4)
    logits = kept_logits(target, prompt, made, kept, 4)
    assert [int(each.argmax()) for each in logits] == made
    # Bit for bit: the last step over the pool is the last one beside it.
    paged = PagedSequence(target, pool, scattered(pool, 7)).logits(made[-2:-1], 11 + 12)
    assert torch.equal(paged, logits[-1])
    whole = whole_logits(target, [*prompt, *made[:-1]])
    assert kept is dtype or not torch.equal(paged, whole)  # the rounding is there


@pytest.mark.parametrize("chunk", [512, 4, 1])
def test_in_full_precision_a_narrow_pool_does_not_depend_on_the_chunks(chunk: int) -> None:
    target = make_target(make_target_config(), torch.float32)
    prompt = random_tokens(11)
    pool = make_pool(target, stored=("fp8_e4m3", "fp8_e4m3"))
    found = PagedSequence(target, pool, scattered(pool, 7)).decode(prompt, 14, chunk)
    assert found == PagedSequence(target, pool, scattered(pool, 7, seed=3)).decode(prompt, 14, 5)


def test_without_tokens_nothing_is_kept() -> None:
    target = make_target(make_target_config(), torch.float32)
    assert kept_logits(target, [3, 4], [], torch.float16, 12) == []
