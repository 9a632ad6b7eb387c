"""The tensors of EAGLE's relatives: ordinary decoder layers, some of which read a wider input.

Sources: SafeAILab/EAGLE eagle/model/cnets.py and cnets1.py, vllm-project/speculators
src/speculators/models/eagle3/core.py and model_definitions.py, sgl-project/SpecForge
specforge/modeling/draft/peagle.py; transformers' Llama, Qwen2 and Qwen3 for the layers.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, cast

from server.config.families.eagle_fields import SIZES, DecoderDraft, DecoderKind, EagleDraft
from server.config.records import Backbone, BlockDraft
from server.config.tensors import ExpectedTensor, expect

EAGLE3_NEEDS = (
    *(*SIZES, "decoder", "captured_count", "draft_vocab_size", "target_hidden_size"),
    *("attention_bias", "use_aux_hidden_state", "norm_before_fc", "fc_norm"),
)
# AngelSlim and SafeAILab write the first name, speculators and ModelOpt the second.
EAGLE3_ALIASES = (("midlayer.", "layers.0."),)
CAPTURED = "captured_count*target_hidden_size"
_WIDE = "2*hidden_size"
_ROWS = {
    "q_proj": "num_attention_heads*head_dim",
    "k_proj": "num_key_value_heads*head_dim",
    "v_proj": "num_key_value_heads*head_dim",
}


class Layer(NamedTuple):
    """One decoder layer: `columns` is the width that its attention reads."""

    record: Backbone
    prefix: str
    kind: DecoderKind
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


def eagle3_tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """fc.weight [H, captured * H_target], layers of which the first reads [*, 2H], norm, tables."""
    head = cast(EagleDraft, draft)
    yield expect(head, "fc.weight", "hidden_size", CAPTURED, needed=head.use_aux_hidden_state)
    if head.norm_before_fc:
        yield expect(head, "input_norm.weight", CAPTURED)
    for i in range(head.captured_count if head.fc_norm else 0):
        yield expect(head, f"fc_norm.{i}.weight", "target_hidden_size", needed=False)
    for i in range(head.num_hidden_layers):
        columns = "hidden_size" if i else _WIDE
        yield from whole(Layer(head, f"layers.{i}.", head.decoder, head.attention_bias, columns))
    yield expect(head, "layers.0.hidden_norm.weight", "hidden_size")
    yield expect(head, "norm.weight", "hidden_size")
    yield from draft_tables(head)


def p_eagle_tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """EAGLE-3's, and mask_hidden [1, 1, captured * H_target], as both trainers write it."""
    yield from eagle3_tensors(draft)
    yield expect(draft, "mask_hidden", "1", "1", CAPTURED)


def eagle_tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """EAGLE-1 and 2: fc.weight [H, 2H], layers of which the first may lack its first norm."""
    head = cast(DecoderDraft, draft)
    yield expect(head, "fc.weight", "hidden_size", _WIDE)
    yield expect(head, "fc.bias", "hidden_size", needed=False)
    for i in range(head.num_hidden_layers):
        name = f"layers.{i}."
        yield expect(head, f"{name}input_layernorm.weight", "hidden_size", needed=i > 0)
        yield from body(Layer(head, name, head.decoder, head.attention_bias))
    yield from shared_tables(head)


def shared_tables(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """The embedding and the head of the target, which a draft may ship."""
    for name in ("embed_tokens.weight", "lm_head.weight"):
        yield expect(draft, name, "vocab_size", "hidden_size", needed=False, loaded=False)


def draft_tables(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """The draft's own head, and with a reduced vocabulary the two maps between vocabularies.

    d2t [draft_vocab] holds offsets: target id = draft id + d2t. t2d [vocab] marks the tokens kept.
    """
    rows = draft.draft_vocab_size
    reduced = rows is not None and rows < draft.vocab_size
    head = ("draft_vocab_size", "hidden_size")
    yield expect(draft, "lm_head.weight", *head, needed=reduced, loaded=reduced)
    table = ("vocab_size", "hidden_size")
    yield expect(draft, "embed_tokens.weight", *table, needed=False, loaded=False)
    for name, size, dtype in (("d2t", "draft_vocab_size", "I64"), ("t2d", "vocab_size", "BOOL")):
        told = expect(draft, name, size, needed=reduced, loaded=False)
        yield replace(told, dtypes=(dtype,))
