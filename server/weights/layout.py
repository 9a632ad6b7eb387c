"""The exact tensors of each model, computed from its config. Names are the checkpoint's names.

Sources: transformers src/transformers/models/qwen3/modeling_qwen3.py, z-lab/dflash model.py,
deepseek-ai/DeepSpec deepspec/modeling/dspark. Linear weights are [out, in].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from server.config.records import Backbone, BlockDraft, TargetConfig

_ATTENTION_ROWS = "num_attention_heads*head_dim"
_KV_ROWS = "num_key_value_heads*head_dim"
_FC_COLUMNS = "len(target_layer_ids)*target_hidden_size"
_LAYER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("input_layernorm.weight", ("hidden_size",)),
    ("self_attn.q_proj.weight", (_ATTENTION_ROWS, "hidden_size")),
    ("self_attn.k_proj.weight", (_KV_ROWS, "hidden_size")),
    ("self_attn.v_proj.weight", (_KV_ROWS, "hidden_size")),
    ("self_attn.o_proj.weight", ("hidden_size", _ATTENTION_ROWS)),
    ("self_attn.q_norm.weight", ("head_dim",)),
    ("self_attn.k_norm.weight", ("head_dim",)),
    ("post_attention_layernorm.weight", ("hidden_size",)),
    ("mlp.gate_proj.weight", ("intermediate_size", "hidden_size")),
    ("mlp.up_proj.weight", ("intermediate_size", "hidden_size")),
    ("mlp.down_proj.weight", ("hidden_size", "intermediate_size")),
)
_GEOMETRY = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
)


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """A tensor that a checkpoint of this config may hold.

    `terms` say in config fields what each dimension of `shape` is. `needed`: its absence is a
    fault. `loaded`: the server reads it (others are allowed and stay on disk).
    """

    name: str
    shape: tuple[int, ...]
    terms: tuple[str, ...]
    needed: bool = True
    loaded: bool = True


def target_layout(target: TargetConfig) -> tuple[ExpectedTensor, ...]:
    """The tensors of a Qwen3 target. With tied embeddings a shipped head is not loaded."""
    sizes = _sizes(target)
    table = ("vocab_size", "hidden_size")
    untied = not target.tie_word_embeddings
    return (
        _tensor("model.embed_tokens.weight", table, sizes),
        *_layers("model.", target, sizes),
        _tensor("model.norm.weight", ("hidden_size",), sizes),
        _tensor("lm_head.weight", table, sizes, needed=untied, loaded=untied),
    )


def draft_layout(draft: BlockDraft, target_hidden_size: int) -> tuple[ExpectedTensor, ...]:
    """The tensors of a DFlash or DSpark draft, without the `model.` prefix of some exports.

    fc.weight is [hidden_size, len(target_layer_ids) * target_hidden_size]. Flat checkpoints ship
    frozen copies of the target's embedding and head, which are not loaded.
    """
    captured = {
        "len(target_layer_ids)": len(draft.target_layer_ids),
        "target_hidden_size": target_hidden_size,
    }
    sizes = {**_sizes(draft), **captured}
    return (
        _tensor("fc.weight", ("hidden_size", _FC_COLUMNS), sizes),
        _tensor("hidden_norm.weight", ("hidden_size",), sizes),
        *_layers("", draft, sizes),
        _tensor("norm.weight", ("hidden_size",), sizes),
        *_heads(draft, sizes),
    )


def _heads(draft: BlockDraft, sizes: Mapping[str, int]) -> Iterator[ExpectedTensor]:
    rank = {"markov_rank": draft.markov_rank}
    if draft.markov_rank:
        for name in ("markov_w1", "markov_w2"):
            full = f"markov_head.{name}.weight"
            yield _tensor(full, ("vocab_size", "markov_rank"), {**sizes, **rank})
    if draft.markov_rank or draft.enable_confidence_head:
        width = "hidden_size+markov_rank" if draft.confidence_head_with_markov else "hidden_size"
        wide = {**sizes, "1": 1, "hidden_size+markov_rank": draft.hidden_size + draft.markov_rank}
        needed = draft.enable_confidence_head
        for part, terms in (("weight", ("1", width)), ("bias", ("1",))):
            name = f"confidence_head.proj.{part}"
            yield _tensor(name, terms, wide, needed=needed, loaded=False)
    if draft.schema_id == "flat":
        for name in ("embed_tokens.weight", "lm_head.weight"):
            yield _tensor(name, ("vocab_size", "hidden_size"), sizes, needed=False, loaded=False)


def _layers(prefix: str, backbone: Backbone, sizes: Mapping[str, int]) -> Iterator[ExpectedTensor]:
    for layer in range(backbone.num_hidden_layers):
        for name, terms in _LAYER:
            yield _tensor(f"{prefix}layers.{layer}.{name}", terms, sizes)


def _sizes(backbone: Backbone) -> dict[str, int]:
    return {name: getattr(backbone, name) for name in _GEOMETRY}


def _tensor(
    name: str,
    terms: tuple[str, ...],
    sizes: Mapping[str, int],
    *,
    needed: bool = True,
    loaded: bool = True,
) -> ExpectedTensor:
    """A tensor whose shape is its terms worked out, so that the two cannot disagree."""
    shape = tuple(prod(sizes[factor] for factor in term.split("*")) for term in terms)
    return ExpectedTensor(name, shape, terms, needed, loaded)
