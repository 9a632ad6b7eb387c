"""How heads are divided over tensor-parallel ranks. Pure integers.

KV heads divide evenly, or are replicated when there are more ranks than heads; every other ratio
is refused, since a rounded head count gives a pool of the wrong size (huggingface/transformers
pull request 48566).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from server.config.rules import finding
from server.findings import Finding, Location

if TYPE_CHECKING:
    from server.config.records import Backbone


def kv_heads_per_rank(num_kv_heads: int, ranks: int) -> int | None:
    """KV heads that each of `ranks` keeps, or None when they neither divide nor replicate."""
    if num_kv_heads % ranks == 0:
        return num_kv_heads // ranks
    return 1 if ranks % num_kv_heads == 0 else None


def valid_ranks(num_attention_heads: int, num_kv_heads: int) -> tuple[int, ...]:
    """Every tensor-parallel size that these heads allow."""
    return tuple(
        ranks
        for ranks in range(1, num_attention_heads + 1)
        if num_attention_heads % ranks == 0 and kv_heads_per_rank(num_kv_heads, ranks)
    )


def judge_ranks(role: str, config: "Backbone", ranks: int) -> Iterator[Finding]:
    """SD505: the heads of one model cannot be shared out over `ranks`."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    valid = valid_ranks(heads, kv_heads)
    if ranks not in valid:
        yield finding(
            "SD505",
            f"the {role}'s {heads} attention heads and {kv_heads} KV heads do not divide over "
            f"{ranks} ranks, valid are {', '.join(map(str, valid))}",
            Location(role, value=heads, source="num_attention_heads"),
            Location(role, value=kv_heads, source="num_key_value_heads"),
            Location("flag", flag="--tensor-parallel-size", value=ranks),
        )
