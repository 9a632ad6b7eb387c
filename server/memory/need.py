"""What a pair needs of any device: weights, KV per token, and the lengths it was built for."""

from dataclasses import dataclass

from server.config.geometry import DTYPE_BYTES
from server.config.records import BlockDraft, TargetConfig
from server.memory.kv_layout import KvLayout, kv_layout


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Resident bytes of the weights in the served dtype, from the files' headers."""

    target_bytes: int
    draft_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """The longest request each model allows, in tokens; `draft_tokens` is None without a draft.

    A drafter writes a whole block past the committed length, so its limit is one block lower
    (pegainfer-project/pegainfer pegainfer-qwen3/src/executor.rs).
    """

    target_tokens: int
    draft_tokens: int | None = None

    @property
    def tokens(self) -> int:
        """The smaller limit."""
        if self.draft_tokens is None:
            return self.target_tokens
        return min(self.target_tokens, self.draft_tokens)


@dataclass(frozen=True, slots=True)
class Need:
    """A pair as the memory gates see it. `ranks`: tensor-parallel size, 1 in this server."""

    layout: KvLayout
    weights: WeightBytes
    limits: LengthLimits
    num_attention_heads: int
    ranks: int = 1


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
    limits = LengthLimits(
        target.max_position_embeddings,
        draft.max_position_embeddings - draft.block_size if draft else None,
    )
    return Need(
        layout=kv_layout(target, draft, DTYPE_BYTES[dtype], block_tokens),
        weights=weights,
        limits=limits,
        num_attention_heads=target.num_attention_heads,
    )
