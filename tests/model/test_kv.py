"""The pool's size, its tables, and what they refuse."""

import pytest
import torch

from server.config.geometry import KvGeometry
from server.model.kv import BlockTable, KvPool, KvPoolError, PoolShape, read_prefix, write_rows
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
