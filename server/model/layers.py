"""The Qwen3 decoder layer as plain torch modules; parameter names are the checkpoint's.

The arithmetic is that of transformers' `models/qwen3/modeling_qwen3.py`: RMSNorm in float32,
per-head RMSNorm on queries and keys before the rotation, SwiGLU, no bias anywhere.
Rows are flat: `[rows, width]`, whichever sequences they belong to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from server.config.records import Backbone
from server.model.parallel import Group
from server.weights.parts import WHOLE, part_config


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotary factors of each row: `cos` and `sin` are `[rows, 1, head_dim / 2]`."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def at(cls, positions: Tensor, config: Backbone, dtype: torch.dtype) -> "Rotation":
        """The factors at absolute `positions` `[rows]`, computed in float32, kept in `dtype`."""
        pair = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=positions.device)
        frequencies = 1.0 / config.rope_theta ** (pair / config.head_dim)
        angles = (positions.float()[:, None] * frequencies)[:, None, :]
        return cls(angles.cos().to(dtype), angles.sin().to(dtype))

    def turn(self, heads: Tensor) -> Tensor:
        """`heads` `[rows, heads, head_dim]`, rotated; the pairs are (i, i + head_dim / 2)."""
        low, high = heads.chunk(2, dim=-1)
        return torch.cat(
            (low * self.cos - high * self.sin, high * self.cos + low * self.sin), dim=-1
        )


class KvContext(Protocol):
    """Where a step's rows stand, and how they attend to what came before them."""

    @property
    def positions(self) -> Tensor:
        """Absolute position of each row, `[rows]` int64."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of layer `layer` for every row.

        `query` is `[rows, heads, head_dim]`, `key` and `value` `[rows, kv_heads, head_dim]`;
        the result has the shape of `query`.
        """


class Matrix(nn.Module):
    """A bare weight `[out, in]`: a projection without bias, or an embedding table."""

    def __init__(self, rows: int, columns: int) -> None:
        """Take a weight on the current default device; it is not initialised."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, columns), requires_grad=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        return functional.linear(hidden, self.weight)

    def lookup(self, tokens: Tensor) -> Tensor:
        """The rows of the table at `tokens`: `[...]` int64 to `[..., in]`."""
        return functional.embedding(tokens, self.weight)


class SplitRows(Matrix):
    """A weight `[out, in]` of which each rank holds a part of the rows; its output is whole."""

    def __init__(self, rows: int, columns: int, group: Group) -> None:
        """Take this rank's rows of all `rows`; they are not initialised."""
        self.rows = group.share.of(rows)
        super().__init__(len(self.rows), columns)
        self.all_rows, self.group = rows, group

    def forward(self, hidden: Tensor) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        return self.group.gather(super().forward(hidden), self.all_rows)

    def lookup(self, tokens: Tensor) -> Tensor:
        """The rows of the whole table at `tokens`: `[...]` int64 to `[..., in]`."""
        if self.group.share == WHOLE:
            return super().lookup(tokens)
        own = (tokens >= self.rows.start) & (tokens < self.rows.stop)
        found = super().lookup(torch.where(own, tokens - self.rows.start, 0))
        return self.group.sum(torch.where(own[..., None], found, 0))


class RmsNorm(nn.Module):
    """Root mean square norm over the last axis, computed in float32 (or wider)."""

    def __init__(self, width: int, epsilon: float) -> None:
        """Take a weight `[width]`; it is not initialised."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width), requires_grad=False)
        self.epsilon = epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        """`hidden` normed and scaled, in its own dtype."""
        wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * (wide * scale).to(hidden.dtype)


class SelfAttention(nn.Module):
    """Projections of grouped-query attention with normed queries and keys."""

    def __init__(self, config: Backbone) -> None:
        """`head_dim` is the config's own: it may differ from hidden_size / heads."""
        super().__init__()
        width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.q_proj = Matrix(width, config.hidden_size)
        self.k_proj = Matrix(kv_width, config.hidden_size)
        self.v_proj = Matrix(kv_width, config.hidden_size)
        self.o_proj = Matrix(config.hidden_size, width)
        self.q_norm = RmsNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RmsNorm(config.head_dim, config.rms_norm_eps)
        self.head_dim = config.head_dim

    def query(self, hidden: Tensor, rotation: Rotation) -> Tensor:
        """Rotated queries `[rows, heads, head_dim]`."""
        heads = self.q_proj(hidden).view(hidden.shape[0], -1, self.head_dim)
        return rotation.turn(self.q_norm(heads))

    def key_value(self, hidden: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Rotated keys and plain values, each `[rows, kv_heads, head_dim]`."""
        heads = self.k_proj(hidden).view(hidden.shape[0], -1, self.head_dim)
        value = self.v_proj(hidden).view(hidden.shape[0], -1, self.head_dim)
        return rotation.turn(self.k_norm(heads)), value


class Mlp(nn.Module):
    """The gated feed-forward part (SwiGLU)."""

    def __init__(self, config: Backbone) -> None:
        """Take the three projections."""
        super().__init__()
        self.gate_proj = Matrix(config.intermediate_size, config.hidden_size)
        self.up_proj = Matrix(config.intermediate_size, config.hidden_size)
        self.down_proj = Matrix(config.hidden_size, config.intermediate_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """`[rows, hidden]` to `[rows, hidden]`."""
        gated = functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden)
        lowered: Tensor = self.down_proj(gated)
        return lowered


class DecoderLayer(nn.Module):
    """One pre-norm layer; target and block draft share it and differ only in their KvContext."""

    def __init__(self, config: Backbone, group: Group) -> None:
        """Take the layer's weights; `config` has the heads and columns of this rank."""
        super().__init__()
        self.group = group
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = SelfAttention(config)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def step(self, index: int, hidden: Tensor, rotation: Rotation, context: KvContext) -> Tensor:
        """The layer's output rows; `index` is its number, by which `context` finds its KV."""
        normed = self.input_layernorm(hidden)
        query = self.self_attn.query(normed, rotation)
        key, value = self.self_attn.key_value(normed, rotation)
        mixed = context.attend(index, query, key, value)
        hidden = hidden + self.group.sum(self.self_attn.o_proj(mixed.flatten(1)))
        feed: Tensor = self.mlp(self.post_attention_layernorm(hidden))
        return hidden + self.group.sum(feed)


class DecoderLayers(nn.ModuleList):
    """The layers of one model, named `layers.{i}` in its checkpoint."""

    def __init__(self, config: Backbone, group: Group) -> None:
        """Take this rank's part of the weights of all layers."""
        own = part_config(config, group.share)
        super().__init__(DecoderLayer(own, group) for _ in range(config.num_hidden_layers))

    def numbered(self) -> Iterator[tuple[int, DecoderLayer]]:
        """Each layer with its number."""
        return enumerate(cast(DecoderLayer, layer) for layer in self)
