"""Which part of each tensor belongs to which tensor-parallel rank. Integers only, no torch.

The split is that of Megatron-LM (https://arxiv.org/abs/1909.08053, section 3): projections into
heads and into the MLP by rows, those out of them by columns, tables of the vocabulary by rows.
The draft's `fc` is split by rows as well: its output is gathered, so that no sum is rounded
twice. Norms are whole on every rank.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from server.config.geometry import DTYPE_BYTES
from server.config.records import Backbone
from server.config.shard import kv_heads_per_rank
from server.weights.entries import TensorEntry
from server.weights.load_plan import LoadPlan

AnyBackbone = TypeVar("AnyBackbone", bound=Backbone)

_BY_HEADS, _BY_KV_HEADS = ("q_proj",), ("k_proj", "v_proj")
_BY_ROWS = ("gate_proj", "up_proj", "embed_tokens", "lm_head", "fc", "markov_w1", "markov_w2")
_BY_HEAD_COLUMNS, _BY_COLUMNS = ("o_proj",), ("down_proj",)


@dataclass(frozen=True, slots=True)
class Share:
    """Part number `rank` of `ranks`."""

    rank: int = 0
    ranks: int = 1

    def of(self, count: int) -> range:
        """The part of `count` things: all parts together are them all, in order.

        Their sizes differ by one at most.
        """
        return range(count * self.rank // self.ranks, count * (self.rank + 1) // self.ranks)

    def kv_heads(self, num_kv_heads: int) -> range:
        """The KV heads of this rank; with more ranks than heads, several ranks keep the same one.

        Raises ValueError where they neither divide nor replicate.
        """
        kept = kv_heads_per_rank(num_kv_heads, self.ranks)
        if kept is None:
            raise ValueError(f"{num_kv_heads} KV heads over {self.ranks} ranks")
        begin = num_kv_heads * self.rank // self.ranks
        return range(begin, begin + kept)


WHOLE = Share()


def part_config(config: AnyBackbone, share: Share) -> AnyBackbone:
    """The geometry of the decoder layers that one rank computes; the rest stays the model's."""
    if share == WHOLE:
        return config
    changes = {
        "num_attention_heads": len(share.of(config.num_attention_heads)),
        "num_key_value_heads": len(share.kv_heads(config.num_key_value_heads)),
        "intermediate_size": len(share.of(config.intermediate_size)),
    }
    return config.model_copy(update=changes)


def part_plan(plan: LoadPlan, config: Backbone, share: Share) -> LoadPlan:
    """What one rank reads of `plan`, whose tensors `config` implies."""
    if share == WHOLE:
        return plan
    return replace(plan, entries=tuple(_parts(plan, config, share)), whole=plan.entries)


def _parts(plan: LoadPlan, config: Backbone, share: Share) -> Iterator[TensorEntry]:
    heads = _scaled(share.of(config.num_attention_heads), config.head_dim)
    kv_heads = _scaled(share.kv_heads(config.num_key_value_heads), config.head_dim)
    for entry in plan.entries:
        kind = entry.name.removesuffix(".weight").rpartition(".")[2]
        if kind in _BY_HEADS:
            yield _rows(entry, heads)
        elif kind in _BY_KV_HEADS:
            yield _rows(entry, kv_heads)
        elif kind in _BY_ROWS:
            yield _rows(entry, share.of(entry.shape[0]))
        elif kind in _BY_HEAD_COLUMNS:
            yield _columns(entry, heads, DTYPE_BYTES[plan.dtype])
        elif kind in _BY_COLUMNS:
            yield _columns(entry, share.of(entry.shape[1]), DTYPE_BYTES[plan.dtype])
        else:
            yield entry


def _scaled(part: range, size: int) -> range:
    return range(part.start * size, part.stop * size)


def _rows(entry: TensorEntry, rows: range) -> TensorEntry:
    """Rows lie one behind the other: one range of the file."""
    row_bytes = entry.size_bytes // entry.shape[0]
    return entry._replace(
        shape=(len(rows), *entry.shape[1:]),
        begin=entry.begin + rows.start * row_bytes,
        size_bytes=len(rows) * row_bytes,
    )


def _columns(entry: TensorEntry, columns: range, width_bytes: int) -> TensorEntry:
    """Columns are a range in each row of the file."""
    rows, all_columns = entry.shape
    return entry._replace(
        shape=(rows, len(columns)),
        begin=entry.begin + columns.start * width_bytes,
        size_bytes=rows * len(columns) * width_bytes,
        pitch_bytes=all_columns * width_bytes,
    )
