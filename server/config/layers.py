"""The tensors of one decoder layer, stated once for target and drafts.

A layer of Qwen3 norms queries and keys, one of Qwen2 has biases on queries, keys and values, one
of Llama has neither. Source: transformers' modeling_qwen3.py, modeling_qwen2.py, modeling_llama.py.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from server.config.records import Backbone
from server.config.tensors import ExpectedTensor, expect

# The fields that the shapes of a decoder come from.
SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)
_ROWS = {
    "q_proj": "num_attention_heads*head_dim",
    "k_proj": "num_key_value_heads*head_dim",
    "v_proj": "num_key_value_heads*head_dim",
}

DecoderKind = Literal["llama", "qwen2", "qwen3"]


class Layer(NamedTuple):
    """One decoder layer: `columns` is the width that its attention reads."""

    record: Backbone
    prefix: str
    kind: DecoderKind = "qwen3"
    bias: bool = False
    columns: str = "hidden_size"


def attention(layer: Layer) -> Iterator[ExpectedTensor]:
    """Projections of queries, keys, values and output, with the norms or biases of the kind."""
    record, name = layer.record, f"{layer.prefix}self_attn."
    for part, rows in _ROWS.items():
        yield expect(record, f"{name}{part}.weight", rows, layer.columns)
        if layer.bias or layer.kind == "qwen2":
            # Code that trains heads of Llama leaves the biases out, whatever its config says.
            yield expect(record, f"{name}{part}.bias", rows, needed=layer.kind == "qwen2")
    yield expect(record, f"{name}o_proj.weight", "hidden_size", _ROWS["q_proj"])
    if layer.bias:
        yield expect(record, f"{name}o_proj.bias", "hidden_size", needed=False)
    if layer.kind == "qwen3":
        yield expect(record, f"{name}q_norm.weight", "head_dim")
        yield expect(record, f"{name}k_norm.weight", "head_dim")


def gated_mlp(record: Backbone, prefix: str, inner: str) -> Iterator[ExpectedTensor]:
    """The three matrices of a gated MLP that is `inner` wide."""
    yield expect(record, f"{prefix}gate_proj.weight", inner, "hidden_size")
    yield expect(record, f"{prefix}up_proj.weight", inner, "hidden_size")
    yield expect(record, f"{prefix}down_proj.weight", "hidden_size", inner)


def body(layer: Layer) -> Iterator[ExpectedTensor]:
    """A layer without its first norm."""
    yield from attention(layer)
    yield expect(layer.record, f"{layer.prefix}post_attention_layernorm.weight", "hidden_size")
    yield from gated_mlp(layer.record, f"{layer.prefix}mlp.", "intermediate_size")


def whole(layer: Layer) -> Iterator[ExpectedTensor]:
    """A layer as a language model has it."""
    yield expect(layer.record, f"{layer.prefix}input_layernorm.weight", "hidden_size")
    yield from body(layer)


def qwen3_layers(record: Backbone, prefix: str = "") -> Iterator[ExpectedTensor]:
    """The Qwen3 decoder layers of `record`: 11 tensors a layer."""
    parts = tuple(whole(Layer(record, "")))  # every layer has these shapes: worked out once
    for i in range(record.num_hidden_layers):
        for part in parts:
            yield ExpectedTensor(f"{prefix}layers.{i}.{part.name}", part.shape, part.terms)
