"""The pool's size, its tables, and what they refuse."""

from dataclasses import replace

import pytest
import torch

from server.config.geometry import KvGeometry
from server.model.kv import (
    BlockTable,
    KvPool,
    KvPoolError,
    PoolShape,
    as_bits,
    converts,
    read_prefix,
    rounded,
    stored,
    torch_dtype,
    write_rows,
)
from tests.model.tiny import CPU

TARGET = KvGeometry(num_layers=3, num_kv_heads=2, head_dim=6, element_bytes=2)
DRAFT = KvGeometry(num_layers=1, num_kv_heads=1, head_dim=4, element_bytes=2)


def make_shape(num_blocks: int = 5, draft: KvGeometry | None = DRAFT) -> PoolShape:
    return PoolShape(TARGET, draft, num_blocks, block_tokens=4)


def make_pool(num_blocks: int = 5, draft: KvGeometry | None = DRAFT) -> KvPool:
    return KvPool.allocate(make_shape(num_blocks, draft), torch.bfloat16, CPU)


def test_pool_takes_the_bytes_of_both_models() -> None:
    # per token: target 2 * 3 * 2 * 6 * 2 = 144 bytes, draft 2 * 1 * 1 * 4 * 2 = 16 bytes
    assert make_pool().nbytes == 5 * 4 * (144 + 16)
    assert make_pool(draft=None).nbytes == 5 * 4 * 144
    assert make_pool().target.shape == (3, 2, 5, 4, 2, 6)


def test_reserved_block_is_not_usable() -> None:
    assert make_pool().usable_tokens == 16
    with pytest.raises(KvPoolError, match="block 0"):
        make_pool().table([1, 0])
    with pytest.raises(KvPoolError, match="block 5"):
        make_pool().table([4, 5])
    assert make_pool().table([4, 1]).capacity_tokens == 8


def test_pool_needs_a_usable_block() -> None:
    assert make_pool(num_blocks=2).usable_tokens == 4
    with pytest.raises(KvPoolError, match="no usable block"):
        make_pool(num_blocks=1)


def test_pool_refuses_a_dtype_of_another_size() -> None:
    assert KvPool.allocate(make_shape(), torch.float16, CPU).target.dtype is torch.float16
    with pytest.raises(KvPoolError, match="4 bytes"):
        KvPool.allocate(make_shape(), torch.float32, CPU)


def test_draft_storage_needs_a_drafter() -> None:
    assert make_pool().draft_storage.shape == (1, 2, 5, 4, 1, 4)
    with pytest.raises(KvPoolError, match="without a drafter"):
        _ = make_pool(draft=None).draft_storage


def test_slots_follow_the_table() -> None:
    table = BlockTable.of([3, 1, 3], 4, CPU)
    assert table.slots(2, 8).tolist() == [14, 15, 4, 5, 6, 7, 12, 13]
    assert table.covering(5).tolist() == [3, 1]
    assert table.covering(4).tolist() == [3]


def test_positions_past_the_table_are_refused() -> None:
    table = BlockTable.of([3, 1], 4, CPU)
    assert table.slots(7, 1).tolist() == [7]
    with pytest.raises(KvPoolError, match="9 tokens asked of a block table that covers 8"):
        table.slots(7, 2)
    with pytest.raises(KvPoolError, match="covers 8"):
        table.covering(9)


def test_rows_come_back_in_order_of_position() -> None:
    pool = make_pool()
    table = pool.table([4, 2, 3])
    rows = torch.arange(10 * 12, dtype=torch.bfloat16).view(10, 2, 6)
    pool.target.zero_()
    for start, end in ((0, 3), (3, 10)):
        slots = table.slots(start, end - start)
        write_rows(pool.target[1], slots, rows[start:end], -rows[start:end])
    key, value = read_prefix(pool.target[1], table, 10)
    assert torch.equal(key, rows)
    assert torch.equal(value, -rows)
    assert not pool.target[[0, 2]].any()


def test_fill_reaches_both_models_and_no_other_block() -> None:
    pool = make_pool()
    for storage in (pool.target, pool.draft_storage):
        storage.zero_()
    pool.fill(pool.table([2, 4]), 7.0)
    for storage in (pool.target, pool.draft_storage):
        assert (storage[:, :, [2, 4]] == 7).all()
        assert not storage[:, :, [0, 1, 3]].any()


LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0, "float16": 65504.0}


@pytest.mark.parametrize("computed", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", LARGEST)
def test_numbers_are_cut_to_the_range_and_nan_stays(name: str, computed: torch.dtype) -> None:
    dtype, most = torch_dtype(name), LARGEST[name]
    values = [0.0, -1.5, most * 4, -most * 4, float("inf"), float("nan")]
    kept = stored(torch.tensor(values, dtype=computed), dtype)
    assert kept.dtype is dtype
    assert kept.float()[:5].tolist() == [0.0, -1.5, most, -most, most]
    assert kept.float()[5].isnan()


def test_numbers_are_rounded_to_the_nearest() -> None:
    values = torch.tensor([0.3, 17.0, 18.9, -100.0, 1e-9])
    assert rounded(values, torch.float8_e4m3fn).tolist() == [0.3125, 16.0, 18.0, -96.0, 0.0]
    assert rounded(values, torch.float8_e5m2).tolist() == [0.3125, 16.0, 20.0, -96.0, 0.0]
    assert rounded(values, torch.float32) is values


@pytest.mark.parametrize("names", [("fp8_e4m3", "bfloat16"), ("float32", "fp8_e5m2")])
def test_each_model_keeps_its_own_type(names: tuple[str, str]) -> None:
    shape = PoolShape(TARGET.stored(names[0]), DRAFT.stored(names[1]), 5, block_tokens=4)
    pool = KvPool.allocate(shape, torch.bfloat16, CPU)
    assert [t.dtype for t in (pool.target, pool.draft_storage)] == [torch_dtype(n) for n in names]
    widths = [torch_dtype(name).itemsize for name in names]
    assert pool.nbytes == 5 * 4 * (72 * widths[0] + 8 * widths[1])


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
def test_rows_come_back_rounded_and_blocks_are_filled(name: str) -> None:
    shape = PoolShape(TARGET.stored(name), DRAFT.stored(name), 5, block_tokens=4)
    pool = KvPool.allocate(shape, torch.bfloat16, CPU)
    pool.fill(pool.table([1, 2, 3, 4]), float("nan"))
    table = pool.table([4, 2, 3])
    rows = torch.randn(10, 2, 6, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(1))
    write_rows(pool.target[1], table.slots(0, 10), rows * 200, -rows)
    key, value = read_prefix(pool.target[1], table, 10)
    assert torch.equal(key.bfloat16(), rounded(rows * 200, torch_dtype(name)))
    assert torch.equal(value.bfloat16(), rounded(-rows, torch_dtype(name)))
    assert pool.target[0, :, 1:].float().isnan().all()
    assert pool.draft_storage[:, :, 1:].float().isnan().all()
    pool.fill(table, 0.0)
    assert not as_bits(pool.target[:, :, 2:]).any()


def test_scales_that_are_planned_are_not_left_out() -> None:
    shape = replace(make_shape(), target=replace(TARGET, scale_bytes=4))
    with pytest.raises(KvPoolError, match="4 bytes of scales are planned"):
        KvPool.allocate(shape, torch.bfloat16, CPU)


def test_what_a_device_cannot_convert_is_found_out() -> None:
    for name in ("fp8_e4m3", "fp8_e5m2", "bfloat16", "float16", "float32"):
        assert converts(torch_dtype(name), CPU)
    assert not converts(torch.float8_e4m3fn, torch.device("meta"))
    assert not converts(torch.int8, CPU)
