"""The self-test passes on sound models and says what is wrong with others."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from server.config.records import BlockDraft
from server.model import selftest
from server.model.build import final_tensors
from server.model.decode import whole_logits
from server.model.kv import BlockTable, KvPool, read_prefix, rounded, write_rows
from server.model.selftest import SelfTestFailed, self_test, tie_tolerance
from server.model.speculate import Speculator
from tests.model.tiny import (
    decode_whole,
    make_draft,
    make_drafter,
    make_dspark,
    make_pool,
    make_target,
    make_target_config,
    random_tokens,
)


@pytest.mark.parametrize("draft", [make_draft(), make_dspark()])
def test_sound_models_pass(draft: BlockDraft) -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(draft, torch.float32)
    pool = make_pool(target, drafter)
    done = self_test(target, drafter, pool, max_model_len=512)
    assert (done.prompt_tokens, done.new_tokens) == (20, 28)
    assert (done.paged_steps, done.speculative_steps) == (28, 28)
    assert sum(done.accepted) + len(done.accepted) + 1 == 28
    assert done.offered[0] == draft.draft_tokens
    assert done.remarks == ()


def test_drafts_of_a_round_are_capped() -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    done = self_test(target, drafter, make_pool(target, drafter), 512, draft_tokens=2)
    assert max(done.offered) == 2


def test_low_precision_passes_with_or_without_a_tie() -> None:
    target = make_target(make_target_config(), torch.bfloat16)
    drafter = make_drafter(make_draft(), torch.bfloat16)
    done = self_test(target, drafter, make_pool(target, drafter), 512)
    assert (done.paged_steps == 28 and done.speculative_steps == 28) or done.remarks


NARROW = [("fp8_e4m3", "bfloat16"), ("fp8_e4m3", "fp8_e4m3"), ("fp8_e5m2", "fp8_e5m2")]


@pytest.mark.parametrize("stored", NARROW)
@pytest.mark.parametrize("seed", range(4))
def test_a_narrow_pool_is_no_difference(stored: tuple[str, str], seed: int) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        target = make_target(make_target_config(), dtype, seed)
        drafter = make_drafter(make_draft(), dtype)
        done = self_test(target, drafter, make_pool(target, drafter, stored=stored), 512)
        assert done.paged_steps == 28  # exact: no tie explains anything away
        assert done.speculative_steps == 28 or done.remarks


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("stored", [("fp8_e4m3", "fp8_e4m3"), ("float16", "float16")])
def test_a_pool_that_rounds_otherwise_fails(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, stored: tuple[str, str]
) -> None:
    def coarse(storage: Tensor, slots: Tensor, key: Tensor, value: Tensor) -> None:
        write_rows(storage, slots, rounded(key * 2, torch.float8_e5m2), value)

    monkeypatch.setattr("server.model.attention.write_rows", coarse)
    target = make_target(make_target_config(), dtype)
    with pytest.raises(SelfTestFailed, match=r"paged decoding takes token \d+ at step \d+"):
        self_test(target, None, make_pool(target, stored=stored), 512)


@pytest.mark.parametrize("stored", NARROW)
def test_a_narrow_pool_read_from_the_wrong_place_fails(
    monkeypatch: pytest.MonkeyPatch, stored: tuple[str, str]
) -> None:
    monkeypatch.setattr("server.model.attention.read_prefix", shifted)
    target = make_target(make_target_config(), torch.bfloat16)
    with pytest.raises(SelfTestFailed, match="paged decoding takes token"):
        self_test(target, None, make_pool(target, stored=stored), 512)


def test_only_other_steps_may_round_otherwise() -> None:
    target = make_target(make_target_config(), torch.bfloat16)
    logits = whole_logits(target, random_tokens(8)).clone()
    tight = tie_tolerance(target, logits)
    assert 2 * tight < tie_tolerance(target, logits, torch.float8_e4m3fn) < 10 * tight
    best, second = logits.float().topk(2).indices.tolist()
    logits[second] = logits[best] - 2 * tight
    expected = selftest._Expected(target, [1], [best], 1, torch.float8_e4m3fn, [logits])
    assert expected.agreed("a path", [second], same_steps=False)[0] == 0
    with pytest.raises(SelfTestFailed, match="rounding explains"):
        expected.agreed("a path", [second])


def test_target_alone_passes() -> None:
    target = make_target(make_target_config(), torch.float32)
    done = self_test(target, None, make_pool(target), 512)
    assert (done.paged_steps, done.speculative_steps, done.offered) == (28, 0, ())


@pytest.mark.parametrize(
    ("max_model_len", "lengths"), [(1, (1, 0)), (2, (1, 1)), (3, (1, 2)), (30, (15, 15))]
)
def test_lengths_stay_within_the_context(max_model_len: int, lengths: tuple[int, int]) -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    done = self_test(target, drafter, make_pool(target, drafter), max_model_len)
    assert (done.prompt_tokens, done.new_tokens) == lengths
    assert bool(done.remarks) == (lengths[1] == 0)


def test_lengths_stay_within_the_pool() -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)  # a block of 5 reaches past the last token
    done = self_test(target, drafter, make_pool(target, drafter, num_blocks=5), 512)
    assert (done.prompt_tokens, done.new_tokens) == (5, 6)


def test_blocks_come_from_both_ends_and_are_left_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[list[int]] = []
    real: Callable[..., BlockTable] = KvPool.table

    def spy(pool: KvPool, ids: list[int]) -> BlockTable:
        tables.append(ids)
        return real(pool, ids)

    monkeypatch.setattr(KvPool, "table", spy)
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    pool = make_pool(target, drafter, num_blocks=40)
    self_test(target, drafter, pool, 512)
    assert tables[0][:4] == [39, 1, 38, 2]
    assert tables[1][:4] == [20, 19, 21, 18]
    for ids in tables:
        assert not pool.target[:, :, ids].any()
        assert not pool.draft_storage[:, :, ids].any()


def shifted(storage: Tensor, table: BlockTable, tokens: int) -> tuple[Tensor, Tensor]:
    key, value = read_prefix(storage, table, tokens)
    return key.float().roll(1, 0), value


def test_keys_read_from_the_wrong_place_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.model.attention.read_prefix", shifted)
    target = make_target(make_target_config(), torch.float32)
    with pytest.raises(SelfTestFailed, match=r"paged decoding takes token \d+ at step \d+"):
        self_test(target, None, make_pool(target), 512)


def test_a_verify_that_accepts_everything_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Speculator._verify

    def credulous(
        pair: Speculator, table: BlockTable, tokens: list[int], drafts: list[int]
    ) -> list[int]:
        real(pair, table, tokens, drafts)
        return [*drafts, 0]

    monkeypatch.setattr(Speculator, "_verify", credulous)
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    with pytest.raises(SelfTestFailed, match="speculative decoding takes token"):
        self_test(target, drafter, make_pool(target, drafter), 512)


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.2.self_attn.v_proj.weight"])
def test_a_target_that_is_not_finite_fails(name: str) -> None:
    target = make_target(make_target_config(), torch.float32)
    final_tensors(target)[name].view(-1)[0] = float("nan")
    with pytest.raises(SelfTestFailed, match="the target's logits: 61 of 61"):
        self_test(target, None, make_pool(target), 512)


@pytest.mark.parametrize("name", ["fc.weight", "layers.1.self_attn.k_proj.weight", "norm.weight"])
def test_a_drafter_that_is_not_finite_fails(name: str) -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    final_tensors(drafter)[name].view(-1)[0] = float("inf")
    with pytest.raises(SelfTestFailed, match="the drafter's hidden states"):
        self_test(target, drafter, make_pool(target, drafter), 512)


def make_rivals(gap: float) -> tuple[selftest._Expected, list[int]]:
    """The greedy answer, and one that at step 2 takes a token whose logit is lower by `gap`."""
    target = make_target(make_target_config(), torch.float32)
    prompt = random_tokens(6)
    tokens = decode_whole(target, prompt, 4)
    rival = next(t for t in range(61) if t not in tokens)
    prefix = [*prompt, *tokens[:2]]
    head = final_tensors(target)["lm_head.weight"]
    best = float(whole_logits(target, prefix)[tokens[2]])
    head[rival] = head[tokens[2]] * (1 - gap / best)
    return selftest._Expected(target, prompt, tokens, 4), [*tokens[:2], rival, tokens[3]]


def test_a_tie_ends_the_comparison_with_a_remark() -> None:
    expected, other = make_rivals(gap=0.0)
    steps, remarks = expected.agreed("a path", other)
    assert steps == 2
    assert remarks[0].startswith(f"tie: a path takes token {other[2]} at step 2")


def test_a_gap_beyond_rounding_is_no_tie() -> None:
    target = make_target(make_target_config(), torch.float32)
    logits = whole_logits(target, random_tokens(8))
    assert 0 < tie_tolerance(target, logits) < 1e-3
    expected, other = make_rivals(gap=0.01)
    with pytest.raises(SelfTestFailed, match=r"differ by 0\.0\d+, rounding explains"):
        expected.agreed("a path", other)


def test_a_missing_token_is_a_difference() -> None:
    expected, _ = make_rivals(gap=0.0)
    assert expected.agreed("a path", expected.tokens) == (4, ())
    with pytest.raises(SelfTestFailed, match="made 3 tokens, 4 were asked"):
        expected.agreed("a path", expected.tokens[:3])
