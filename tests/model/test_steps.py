"""The worst step: how much it runs, and how little it needs."""

import pytest
import torch
from torch import Tensor

from server.config.records import BlockDraft
from server.model.kv import KvPoolError, Span
from server.model.qwen3 import Qwen3Target
from server.model.steps import StepShape, blocks_for_worst_step, worst_step
from tests.model.tiny import (
    BLOCK_TOKENS,
    make_draft,
    make_drafter,
    make_dspark,
    make_pool,
    make_target,
    make_target_config,
)


def make_shape(**changes: int) -> StepShape:
    fields = {"prefill_tokens": 48, "num_seqs": 3, "verify_tokens": 5, "max_model_len": 100}
    return StepShape(**(fields | changes))


def logits_rows(target: Qwen3Target, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fills up with the number of rows of each logits call."""
    seen: list[int] = []
    real = target.logits

    def spy(hidden: Tensor) -> Tensor:
        seen.append(hidden.shape[:-1].numel())
        return real(hidden)

    monkeypatch.setattr(target, "logits", spy)
    return seen


def test_the_pool_of_a_worst_step_is_small() -> None:
    assert blocks_for_worst_step(make_shape(max_model_len=40960), 16) == 9
    assert blocks_for_worst_step(make_shape(max_model_len=17), 16) == 3
    assert blocks_for_worst_step(make_shape(max_model_len=16), 16) == 2


@pytest.mark.parametrize("draft", [make_draft(), make_dspark(block_size=4)])
def test_draft_and_verify_make_all_logits(
    draft: BlockDraft, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(draft, torch.float32)
    shape = make_shape()
    pool = make_pool(target, drafter, blocks_for_worst_step(shape, BLOCK_TOKENS))
    seen = logits_rows(target, monkeypatch)
    worst_step(target, drafter, pool, shape)
    assert seen == [1, 3 * 4, 3 * 5]
    for storage in (pool.target, pool.draft_storage):
        assert torch.isfinite(storage[:, :, 1:]).any()
        assert torch.isnan(storage[:, :, 0]).all()


def test_all_rows_enter_the_draft_context_and_one_sequence_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    shape = make_shape()
    seen: list[tuple[tuple[int, ...], list[int]]] = []
    real = drafter.extend

    def spy(features: Tensor, storage: Tensor, spans: list[Span]) -> None:
        seen.append((tuple(features.shape), [span.start for span in spans]))
        real(features, storage, spans)

    monkeypatch.setattr(drafter, "extend", spy)
    pool = make_pool(target, drafter, blocks_for_worst_step(shape, BLOCK_TOKENS))
    worst_step(target, drafter, pool, shape)
    assert seen == [((48, 3 * 24), [52]), ((3 * 5, 3 * 24), [99, 1, 1])]


def test_without_a_drafter_each_sequence_decodes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_target(make_target_config(), torch.float32)
    shape = make_shape(verify_tokens=1)
    pool = make_pool(target, None, blocks_for_worst_step(shape, BLOCK_TOKENS))
    seen = logits_rows(target, monkeypatch)
    worst_step(target, None, pool, shape)
    assert seen == [1, 3]


def test_a_prefill_longer_than_the_context_is_several_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = make_target(make_target_config(), torch.float32)
    shape = make_shape(prefill_tokens=25, max_model_len=10, verify_tokens=1)
    pool = make_pool(target, None, blocks_for_worst_step(shape, BLOCK_TOKENS))
    seen = logits_rows(target, monkeypatch)
    worst_step(target, None, pool, shape)
    assert seen == [3, 3]


def test_the_smallest_limits_run() -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    shape = StepShape(prefill_tokens=1, num_seqs=1, verify_tokens=2, max_model_len=1)
    pool = make_pool(target, drafter, blocks_for_worst_step(shape, BLOCK_TOKENS))
    worst_step(target, drafter, pool, shape)
    assert torch.isfinite(pool.draft_storage[:, :, 1]).any()


def test_a_drafter_needs_its_part_of_the_pool() -> None:
    target = make_target(make_target_config(), torch.float32)
    drafter = make_drafter(make_draft(), torch.float32)
    with pytest.raises(KvPoolError, match="without a drafter"):
        worst_step(target, drafter, make_pool(target), make_shape())
