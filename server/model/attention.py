"""Attention over one sequence at a time, and the two places its keys may come from.

`PagedContext` writes a step's rows to a KV pool and reads each sequence back from it;
`WholeContext` holds nothing: its rows are the whole sequence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from server.model.kv import Span, read_prefix, rounded, write_rows

# A masked pass takes this many query rows at most, so the mask stays [512, context].
MASKED_ROWS = 512

# cuDNN is left out: it compiles a plan and takes a workspace for each new shape.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Attention of the last rows of one sequence: `query` `[rows, heads, head_dim]`.

    `key` and `value` are `[context, kv_heads, head_dim]`, context >= rows, the query rows'
    own included. Causal: a row sees the context up to itself; else every row sees all.
    """
    rows, context = query.shape[0], key.shape[0]
    if not causal or rows == 1:
        return _kernel(query, key, value)
    if rows == context:
        return _kernel(query, key, value, square_causal=True)
    parts = []
    for first in range(0, rows, MASKED_ROWS):
        part = query[first : first + MASKED_ROWS]
        end = context - rows + first + part.shape[0]
        parts.append(_kernel(part, key[:end], value[:end], _visible(part.shape[0], end, key)))
    return torch.cat(parts)


def _visible(rows: int, context: int, like: Tensor) -> Tensor:
    """Boolean mask `[rows, context]`: the rows are the last ones of the context."""
    columns = torch.arange(context, device=like.device)
    return columns[None, :] <= columns[context - rows :, None]


def _kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    square_causal: bool = False,
) -> Tensor:
    """One fused attention call, `[rows, heads, head_dim]` in and out.

    The key-value heads go on the batch axis and are broadcast over their query heads as a view:
    no copy per query head, and every kernel takes it (not all know grouped queries).
    """
    rows, heads, head_dim = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    with sdpa_kernel(_KERNELS):
        mixed = scaled_dot_product_attention(
            query.view(rows, kv_heads, group, head_dim).permute(1, 2, 0, 3),
            key.permute(1, 0, 2)[:, None].expand(-1, group, -1, -1),
            value.permute(1, 0, 2)[:, None].expand(-1, group, -1, -1),
            attn_mask=mask,
            is_causal=square_causal,
        )
    return mixed.permute(2, 0, 1, 3).reshape(rows, heads, head_dim)


@dataclass(frozen=True, slots=True)
class PagedContext:
    """A step over a pool: the rows of each span, one span after the other.

    `storage` is one model's pool tensor. `causal` False lets the rows of a span see each other
    in full (a draft block); the pool before them is seen either way.
    """

    storage: Tensor
    spans: Sequence[Span]
    causal: bool = True
    slots: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Resolve the slots of all rows once, for every layer. Raises KvPoolError."""
        slots = torch.cat([span.table.slots(span.start, span.rows) for span in self.spans])
        object.__setattr__(self, "slots", slots)

    @property
    def positions(self) -> Tensor:
        """Absolute position of each row, `[rows]`."""
        device = self.storage.device
        return torch.cat([torch.arange(s.start, s.end, device=device) for s in self.spans])

    def write(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Put the rows' keys and values of one layer in the pool."""
        write_rows(self.storage[layer], self.slots, key, value)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Write the rows, then attend sequence by sequence (see KvContext.attend)."""
        self.write(layer, key, value)
        mixed = torch.empty_like(query)
        first = 0
        for span in self.spans:
            own = slice(first, first + span.rows)
            first += span.rows
            if span.start == 0:
                # A sequence's first rows are its whole context: no need to read them back.
                known = _as_kept(key[own], value[own], self.storage.dtype)
            else:
                known = read_prefix(self.storage[layer], span.table, span.end)
            keys, values = (part.to(query.dtype) for part in known)
            mixed[own] = attend(query[own], keys, values, causal=self.causal)
        return mixed


def _as_kept(key: Tensor, value: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What a pool of `dtype` would give back: every row sees the same numbers, however it runs."""
    return rounded(key, dtype), rounded(value, dtype)


@dataclass(frozen=True, slots=True)
class WholeContext:
    """A step whose `rows` rows are one whole sequence from position 0; nothing is stored."""

    rows: int
    device: torch.device

    @property
    def positions(self) -> Tensor:
        """Positions 0 .. rows-1."""
        return torch.arange(self.rows, device=self.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Causal attention among the rows themselves."""
        return attend(query, key, value, causal=True)


@dataclass(frozen=True, slots=True)
class KeptContext:
    """Steps over one sequence whose keys and values lie in plain tensors, one per layer, rounded
    as a pool of `dtype` rounds them: what paged steps of the same rows compute, without paging.

    The step has `rows` rows from position `start`; `kept` is carried from step to step.
    """

    start: int
    rows: int
    dtype: torch.dtype
    kept: dict[int, tuple[Tensor, Tensor]]
    device: torch.device

    @property
    def positions(self) -> Tensor:
        """Positions start .. start+rows-1."""
        return torch.arange(self.start, self.start + self.rows, device=self.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Causal attention over what was kept and the rows themselves."""
        key, value = _as_kept(key, value, self.dtype)
        if self.start:
            before = self.kept[layer]
            key, value = torch.cat([before[0], key]), torch.cat([before[1], value])
        self.kept[layer] = key, value
        return attend(query, key, value, causal=True)
