"""The KV cache geometry of one model: how many bytes one token costs. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.config.records import Backbone

# Block 0 of the pool pads unused table entries and never holds a token. Servers that did not count
# it accepted a longest request that then waited for ever (vllm-project/vllm issue 35541).
RESERVED_BLOCKS = 1

DTYPE_BYTES: Mapping[str, int] = MappingProxyType({"bfloat16": 2, "float16": 2, "float32": 4})

# What a KV pool may store: fp8 too, with one scale of 1.0 for the whole tensor.
KV_DTYPE_BYTES: Mapping[str, int] = MappingProxyType({**DTYPE_BYTES, "fp8_e4m3": 1, "fp8_e5m2": 1})


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """What one model keeps per token: a key and a value for each layer and KV head.

    `element_bytes` is the size of one stored number, `dtype` its type where it is set apart from
    what is computed in. `scale_bytes` is kept per token and head for each of key and value, where
    the cache is quantised with such scales.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    element_bytes: int
    scale_bytes: int = 0
    dtype: str | None = None

    def stored(self, dtype: str) -> "KvGeometry":
        """The same, kept as `dtype`, which is one of KV_DTYPE_BYTES."""
        return replace(self, element_bytes=KV_DTYPE_BYTES[dtype], dtype=dtype)

    def storage_shape(self, num_blocks: int, block_tokens: int) -> tuple[int, ...]:
        """The pool's tensor: `[layers, 2 (key, value), num_blocks, block_tokens, heads, dim]`."""
        return (self.num_layers, 2, num_blocks, block_tokens, self.num_kv_heads, self.head_dim)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token, over all layers: of the tensor that is allocated, and of scales."""
        numbers = prod(self.storage_shape(1, 1))
        return numbers * self.element_bytes + numbers // self.head_dim * self.scale_bytes


def kv_geometry(backbone: "Backbone", element_bytes: int) -> KvGeometry:
    """The geometry of `backbone`, from its own fields only (a draft's never from the target's).

    head_dim is the config's field, not hidden_size / heads: in Qwen3 the two differ.
    """
    return KvGeometry(
        num_layers=backbone.num_hidden_layers,
        num_kv_heads=backbone.num_key_value_heads,
        head_dim=backbone.head_dim,
        element_bytes=element_bytes,
    )
