"""Every KV block written once and read back once: each must be there, and be no other's.

Each block of each layer's keys and values gets a number of its own, written in digits from 0 to 7,
which every dtype of a pool holds exactly. All are written before the first is read, so that two
blocks in one place show.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from server.model.kv import KvPool, as_bits

# What is made at once beside the pool: little, since the pool may leave only the margin free.
_PIECE_BYTES = 8 * 2**20
_DIGIT_BITS = 3
_DIGITS = 16  # 48 bits: more blocks than any memory holds
_SIDES = ("keys", "values")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Blocks `first` .. of one layer's keys or values: `[blocks, block_tokens, heads, dim]`.

    `number` is that of its first block; the others count on.
    """

    name: str
    blocks: Tensor
    first: int
    number: int

    def pattern(self) -> Tensor:
        """What the blocks hold when they hold their numbers, as bits of the pool's dtype."""
        blocks = self.blocks
        numbers = torch.arange(self.number, self.number + len(blocks), device=blocks.device)
        places = torch.arange(_DIGITS, device=blocks.device) * _DIGIT_BITS
        digits = (numbers[:, None] >> places) % 2**_DIGIT_BITS
        row = as_bits(digits.to(torch.float32).to(blocks.dtype))
        size = blocks[0].numel()
        rows = row[:, None].expand(-1, -(-size // _DIGITS), -1)
        return rows.flatten(1)[:, :size].view(blocks.shape)

    def fault(self) -> str | None:
        """Which block holds something else, if any; else the blocks are zero afterwards."""
        found, pattern = as_bits(self.blocks), self.pattern()
        if torch.equal(found, pattern):
            found.zero_()
            return None
        wrong = (found != pattern).flatten(1).any(1)
        block = self.first + int(wrong.nonzero()[0])
        return f"block {block} of {self.name} does not hold what was written to it"


def first_fault(pool: KvPool) -> str | None:
    """What is wrong with the pool's memory, or None; a sound pool is all zeros afterwards."""
    parts = (("target", pool.target), ("draft", pool.draft))
    tensors = [(role, tensor) for role, tensor in parts if tensor is not None]
    if short := next(filter(None, (_short(role, tensor) for role, tensor in tensors)), None):
        return short
    pieces = list(_pieces(tensors))
    for piece in pieces:
        as_bits(piece.blocks).copy_(piece.pattern())
    return next(filter(None, (piece.fault() for piece in pieces)), None)


def _short(role: str, tensor: Tensor) -> str | None:
    """A tensor without its own place for each element, which must not be written at all."""
    begin = tensor.storage_offset() * tensor.itemsize
    held = tensor.untyped_storage().nbytes() - begin
    if not tensor.is_contiguous():
        return f"the {role}'s KV pool has strides {tensor.stride()}: its blocks are not apart"
    if held < tensor.nbytes:
        return f"the {role}'s KV pool is {tensor.nbytes} bytes, its storage holds {held}"
    return None


def _pieces(tensors: list[tuple[str, Tensor]]) -> Iterator[_Piece]:
    number = 1
    for role, tensor in tensors:
        step = max(1, _PIECE_BYTES // tensor[0, 0, 0].nbytes)
        for layer, layers in enumerate(tensor):
            for side, blocks in zip(_SIDES, layers, strict=True):
                name = f"the {role}'s {side} of layer {layer}"
                for first in range(0, len(blocks), step):
                    piece = blocks[first : first + step]
                    yield _Piece(name, piece, first, number)
                    number += len(piece)
