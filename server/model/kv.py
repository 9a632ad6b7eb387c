"""The paged KV pool: where keys and values lie, and how one sequence's rows find their place.

One tensor per model, `[layers, 2, num_blocks, block_tokens, kv_heads, head_dim]`; index 0 of the
second axis holds keys, 1 values. A block id names the same block in the target's and in the
draft's tensor, so one table serves both. Block 0 is reserved for padding rows.

A pool may store another type than is computed in: numbers are clamped to its range (one scale of
1.0 for all), rounded when they are written, and converted back when they are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from server.config.geometry import RESERVED_BLOCKS, KvGeometry

_FP8 = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


class KvPoolError(ValueError):
    """The pool cannot do what is asked: positions past a table, an unknown block, no draft part."""


@dataclass(frozen=True, slots=True)
class PoolShape:
    """How big a pool is: the models that share its blocks, and the blocks (reserved included)."""

    target: KvGeometry
    draft: KvGeometry | None
    num_blocks: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The blocks of one sequence in order of position: `ids` is `[blocks]`, int64, on the device.

    Ids may repeat: a profile emulates a long context that way, without the memory for it.
    """

    ids: Tensor
    block_tokens: int

    @classmethod
    def of(cls, ids: Sequence[int], block_tokens: int, device: torch.device) -> "BlockTable":
        """A table of the given block ids, first position first."""
        return cls(torch.tensor(ids, dtype=torch.int64, device=device), block_tokens)

    @property
    def capacity_tokens(self) -> int:
        """How many positions the table covers."""
        return int(self.ids.numel()) * self.block_tokens

    def slots(self, start: int, rows: int) -> Tensor:
        """Slots `[rows]` (block id * block_tokens + offset) of positions start .. start+rows-1.

        Raises KvPoolError when the last one lies past the table.
        """
        self.require(start + rows)
        positions = torch.arange(start, start + rows, device=self.ids.device)
        blocks = self.ids[positions // self.block_tokens]
        return blocks * self.block_tokens + positions % self.block_tokens

    def covering(self, tokens: int) -> Tensor:
        """The ids `[blocks]` of the blocks that hold the first `tokens` positions.

        Raises KvPoolError when the table is shorter.
        """
        self.require(tokens)
        return self.ids[: -(-tokens // self.block_tokens)]

    def require(self, tokens: int) -> None:
        """Raise KvPoolError unless the table covers `tokens` positions."""
        if tokens > self.capacity_tokens:
            raise KvPoolError(
                f"{tokens} tokens asked of a block table that covers {self.capacity_tokens}"
            )


@dataclass(frozen=True, slots=True)
class Span:
    """`rows` consecutive positions of one sequence, from `start`; its KV lies where `table` says.

    A step writes the keys and values of these rows and attends to positions 0 .. start+rows-1.
    """

    start: int
    rows: int
    table: BlockTable

    @property
    def end(self) -> int:
        """One past the last position of the rows."""
        return self.start + self.rows


@dataclass(frozen=True, slots=True)
class KvPool:
    """The allocated pool. `draft` is None when no drafter is served."""

    target: Tensor
    draft: Tensor | None
    shape: PoolShape

    @classmethod
    def allocate(cls, shape: PoolShape, dtype: torch.dtype, device: torch.device) -> "KvPool":
        """Take the memory of `shape` on `device`; nothing is written to it.

        `dtype` is stored where a geometry names no type of its own. Raises KvPoolError when no
        block is left besides the reserved one, or the type has another size than was planned;
        torch's out-of-memory errors pass through.
        """
        if shape.num_blocks <= RESERVED_BLOCKS:
            raise KvPoolError(f"a pool of {shape.num_blocks} blocks has no usable block")
        target = _storage(shape.target, shape, dtype, device)
        draft = None if shape.draft is None else _storage(shape.draft, shape, dtype, device)
        return cls(target, draft, shape)

    @property
    def nbytes(self) -> int:
        """Bytes of both tensors."""
        return sum(t.nbytes for t in (self.target, self.draft) if t is not None)

    @property
    def draft_storage(self) -> Tensor:
        """The draft's tensor. Raises KvPoolError when the pool was allocated without a drafter."""
        if self.draft is None:
            raise KvPoolError("the pool was allocated without a drafter")
        return self.draft

    @property
    def device(self) -> torch.device:
        """Where the pool lies."""
        return self.target.device

    @property
    def usable_tokens(self) -> int:
        """Positions that sequences may take: every block but the reserved one."""
        return (self.shape.num_blocks - RESERVED_BLOCKS) * self.shape.block_tokens

    def table(self, ids: Sequence[int]) -> BlockTable:
        """A block table of this pool. Raises KvPoolError for a reserved or unknown id."""
        wrong = [i for i in ids if not RESERVED_BLOCKS <= i < self.shape.num_blocks]
        if wrong:
            raise KvPoolError(
                f"block {wrong[0]} is not one of the usable blocks 1..{self.shape.num_blocks - 1}"
            )
        return BlockTable.of(ids, self.shape.block_tokens, self.device)

    def fill(self, table: BlockTable, value: float) -> None:
        """Write `value` to every slot of the table's blocks, of both models."""
        for storage in (self.target, self.draft):
            if storage is not None:
                number = torch.tensor(value, device=storage.device).to(storage.dtype)
                as_bits(storage)[:, :, table.ids] = as_bits(number)


def as_bits(values: Tensor) -> Tensor:
    """The same memory as plain bytes where the dtype has one: not every kernel knows fp8."""
    return values.view(torch.uint8) if values.itemsize == 1 else values


def write_rows(storage: Tensor, slots: Tensor, key: Tensor, value: Tensor) -> None:
    """Put `key` and `value`, each `[rows, kv_heads, head_dim]`, in one layer's `slots` `[rows]`.

    `storage` is that layer's part of a pool tensor.
    """
    flat = as_bits(storage).flatten(1, 2)
    flat[0].index_copy_(0, slots, as_bits(stored(key, storage.dtype)))
    flat[1].index_copy_(0, slots, as_bits(stored(value, storage.dtype)))


def read_prefix(storage: Tensor, table: BlockTable, tokens: int) -> tuple[Tensor, Tensor]:
    """Keys and values `[tokens, kv_heads, head_dim]` of one sequence's first `tokens` positions,
    in the type that is stored.
    """
    rows = as_bits(storage)[:, table.covering(tokens)].flatten(1, 2)[:, :tokens]
    return rows[0].view(storage.dtype), rows[1].view(storage.dtype)


def stored(values: Tensor, dtype: torch.dtype) -> Tensor:
    """`values` as a pool of `dtype` keeps them: clamped to its range, then rounded.

    By way of float32, which holds the largest number of every such type; NaN stays NaN.
    """
    if values.dtype == dtype:
        return values
    most = torch.finfo(dtype).max
    return values.float().clamp(-most, most).to(dtype)


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """`values` as they come back from a pool of `dtype`, in their own type."""
    return stored(values, dtype).to(values.dtype)


def torch_dtype(name: str) -> torch.dtype:
    """Torch's type of one of KV_DTYPE_BYTES."""
    found: torch.dtype = _FP8[name] if name in _FP8 else getattr(torch, name)
    return found


def converts(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch can store `dtype` on `device` and read it back, found out by doing it."""
    try:
        numbers = torch.tensor([0.0, 1.0, -2.5, 2.0**40], device=device)
        back = stored(numbers, dtype).float().tolist()
    except (RuntimeError, TypeError):
        return False
    return back[:3] == [0.0, 1.0, -2.5] and back[3] in (2.0**40, torch.finfo(dtype).max)


def _storage(
    geometry: KvGeometry, shape: PoolShape, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """An uninitialised pool tensor of one model."""
    dtype = torch_dtype(geometry.dtype) if geometry.dtype else dtype
    if geometry.scale_bytes:
        raise KvPoolError(f"{geometry.scale_bytes} bytes of scales are planned, a pool has none")
    if dtype.itemsize != geometry.element_bytes:
        raise KvPoolError(
            f"{dtype} has {dtype.itemsize} bytes, the pool was planned with "
            f"{geometry.element_bytes} per element"
        )
    places = geometry.storage_shape(shape.num_blocks, shape.block_tokens)
    return torch.empty(places, dtype=dtype, device=device)
