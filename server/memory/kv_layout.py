"""How the KV pool is cut into blocks, and what a request needs of it. Pure integers.

Formulas: need(m) = ceil((m + tail) / block) + reserved; longest(b) = (b - reserved) x block - tail.
"""

from dataclasses import dataclass, replace

from server.config.geometry import RESERVED_BLOCKS, KvGeometry, kv_geometry
from server.config.records import BlockDraft, TargetConfig


@dataclass(frozen=True, slots=True)
class KvLayout:
    """The KV block: `block_tokens` tokens of the target's and the draft's cache together.

    `tail_tokens` are rows that a drafter writes past the committed length of each request.
    """

    target: KvGeometry
    draft: KvGeometry | None = None
    block_tokens: int = 16
    tail_tokens: int = 0

    def stored(self, target: str, draft: str) -> "KvLayout":
        """The same block, with caches that keep these types (of KV_DTYPE_BYTES)."""
        kept = None if self.draft is None else self.draft.stored(draft)
        return replace(self, target=self.target.stored(target), draft=kept)

    @property
    def draft_bytes_per_token(self) -> int:
        """Bytes that one token costs in the draft's cache; 0 without a drafter."""
        return self.draft.bytes_per_token if self.draft else 0

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token costs in both caches."""
        return self.target.bytes_per_token + self.draft_bytes_per_token

    @property
    def block_bytes(self) -> int:
        """Bytes of one KV block, both caches."""
        return self.block_tokens * self.bytes_per_token

    def blocks_per_request(self, length_tokens: int) -> int:
        """Blocks that one request of `length_tokens` occupies, its tail included."""
        return -(-(length_tokens + self.tail_tokens) // self.block_tokens)

    def need_blocks(self, length_tokens: int) -> int:
        """The smallest pool, in blocks, that serves one request of `length_tokens`."""
        return self.blocks_per_request(length_tokens) + RESERVED_BLOCKS

    def longest_tokens(self, num_blocks: int) -> int:
        """The longest request that a pool of `num_blocks` serves; 0 when it serves none."""
        return max(0, (num_blocks - RESERVED_BLOCKS) * self.block_tokens - self.tail_tokens)


def kv_layout(
    target: TargetConfig, draft: BlockDraft | None, element_bytes: int, block_tokens: int
) -> KvLayout:
    """The layout of a pair; both caches store numbers of `element_bytes`."""
    return KvLayout(
        target=kv_geometry(target, element_bytes),
        draft=kv_geometry(draft, element_bytes) if draft else None,
        block_tokens=block_tokens,
        tail_tokens=draft.block_size if draft else 0,
    )
