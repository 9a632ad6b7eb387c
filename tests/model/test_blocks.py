"""A pool whose memory is not what it seems is found before anything is served from it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from server import serve, startup
from server.config.geometry import KvGeometry
from server.log import Log, Refused
from server.model import blocks
from server.model.blocks import first_fault
from server.model.kv import KvPool, PoolShape, as_bits
from server.report import NOT_LOADED, NOT_TOUCHED
from tests.boots import make_log, make_options, rules, said
from tests.model.tiny import CPU

DTYPES = (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def make_pool(dtype: torch.dtype = torch.bfloat16, num_blocks: int = 9) -> KvPool:
    size = dtype.itemsize
    target, draft = KvGeometry(3, 2, 6, size), KvGeometry(2, 2, 6, size)
    pool = KvPool.allocate(PoolShape(target, draft, num_blocks, 4), dtype, CPU)
    for storage in (pool.target, pool.draft_storage):
        as_bits(storage).fill_(0x55)
    return pool


def overlapping(pool: KvPool) -> KvPool:
    """The draft's blocks lie inside the target's, from its second block on."""
    draft, block = pool.draft_storage, pool.target[0, 0, 0].numel()
    inside = pool.target.view(-1)[block : block + draft.numel()].view(draft.shape)
    return replace(pool, draft=inside)


def repeating(pool: KvPool) -> KvPool:
    """Every block is the first one."""
    return replace(pool, target=pool.target[:, :, :1].expand_as(pool.target))


def short(pool: KvPool) -> KvPool:
    """The draft's last byte has no memory."""
    pool.draft_storage.untyped_storage().resize_(pool.draft_storage.nbytes - 1)
    return pool


FAULTS: tuple[tuple[Callable[[KvPool], KvPool], str], ...] = (
    (overlapping, "block 1 of the target's keys of layer 0 does not hold what was written to it"),
    (repeating, "its blocks are not apart"),
    (short, "its storage holds"),
)


@pytest.mark.parametrize("piece_bytes", [1, 8 * 2**20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sound_pool_is_written_read_and_left_zero(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, piece_bytes: int
) -> None:
    monkeypatch.setattr(blocks, "_PIECE_BYTES", piece_bytes)
    pool = make_pool(dtype)
    assert first_fault(pool) is None
    for storage in (pool.target, pool.draft_storage):
        assert not as_bits(storage).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_two_blocks_hold_the_same(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    pool, seen = make_pool(dtype, num_blocks=300), []
    monkeypatch.setattr(blocks._Piece, "fault", lambda piece: seen.append(piece.blocks.clone()))
    assert first_fault(pool) is None
    rows = torch.cat([as_bits(piece).flatten(1) for piece in seen])
    assert len(rows) == 300 * 2 * (3 + 2)
    assert len(rows.unique(dim=0)) == len(rows)
    assert not (rows == 0).all(1).any()  # memory that only reads as zero is none of them


@pytest.mark.parametrize(("spoil", "told"), FAULTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_there_or_is_there_twice_is_found(
    dtype: torch.dtype, spoil: Callable[[KvPool], KvPool], told: str
) -> None:
    fault = first_fault(spoil(make_pool(dtype)))
    assert fault is not None
    assert told in fault


@pytest.mark.parametrize("block", [0, 5, 8])
def test_a_block_that_changes_by_itself_is_named(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    pool, real = make_pool(), blocks._Piece.fault

    def spoiled(piece: blocks._Piece) -> str | None:
        pool.target[2, 1, block, 3, 1, 5] += 1  # its last element
        return real(piece)

    monkeypatch.setattr(blocks._Piece, "fault", spoiled)
    told = f"block {block} of the target's values of layer 2 does not hold what was written to it"
    assert first_fault(pool) == told


@pytest.mark.parametrize(("spoil", "told"), FAULTS)
def test_sd510_a_boot_over_such_a_pool_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    spoil: Callable[[KvPool], KvPool],
    told: str,
) -> None:
    real = serve.allocate

    def allocate(profiled: serve.Profiled, log: Log) -> serve.Pooled:
        pooled = real(profiled, log)
        return replace(pooled, pool=replace(pooled.pool, pool=spoil(pooled.pool.pool)))

    monkeypatch.setattr(serve, "allocate", allocate)
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))
    limits = {"max_num_batched_tokens": 16, "max_num_seqs": 1, "max_model_len": 64}
    options = make_options("sample:qwen3", "sample:dflash", device="cpu", **limits)
    log = make_log()
    log.report.settings |= make_log(make_options("x")).report.settings
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    with pytest.raises(Refused):
        startup.boot(options, log)
    assert rules(log)[-1] == "SD510"
    assert told in " ".join(said(log).split())
