"""What a pair needs of any device: weights, KV per token, and the lengths it was built for."""

from dataclasses import dataclass

from server.config.geometry import DTYPE_BYTES
from server.config.pair import served_length
from server.config.records import BlockDraft, TargetConfig
from server.memory.kv_layout import KvLayout, kv_layout


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Resident bytes of the weights in the served dtype, from the files' headers."""

    target_bytes: int
    draft_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Need:
    """A pair as the memory gates see it: what one rank keeps of it.

    `limit_tokens` is the longest request that the positions of both models allow.
    """

    layout: KvLayout
    weights: WeightBytes
    limit_tokens: int


def need_of(
    target: TargetConfig,
    draft: BlockDraft | None,
    weights: WeightBytes,
    dtype: str,
    block_tokens: int,
) -> Need:
    """The need of a pair that is served in `dtype` with KV blocks of `block_tokens`.

    Raises KeyError for a dtype that is not served.
    """
    return Need(
        layout=kv_layout(target, draft, DTYPE_BYTES[dtype], block_tokens),
        weights=weights,
        limit_tokens=served_length(draft, target),
    )
