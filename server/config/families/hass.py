"""EAGLE-1, EAGLE-2 and HASS as the speculators format writes them.

Source: vllm-project/speculators src/speculators/models/eagle.py and
src/speculators/convert/eagle/eagle_converter.py (names).
"""

from collections.abc import Iterator

from server.config.families.block import shipped_tables
from server.config.families.eagle_fields import DecoderDraft
from server.config.layers import SIZES, Layer, body
from server.config.tensors import ExpectedTensor, Tensors, expect


class HassDraft(DecoderDraft):
    """EAGLE-1, EAGLE-2 or HASS: a bias of the fusion and norms around the layer are options."""

    fusion_bias: bool = False
    layernorms: bool = False


def _tensors(head: HassDraft) -> Iterator[ExpectedTensor]:
    """fusion_fc.weight [H, 2H] and one layer, transformer, which has its first norm by option."""
    yield expect(head, "fusion_fc.weight", "hidden_size", "2*hidden_size")
    if head.fusion_bias:
        yield expect(head, "fusion_fc.bias", "hidden_size")
    norms = ("embedding_layernorm", "transformer.input_layernorm", "pre_lm_head_layernorm")
    for name in norms if head.layernorms else ():
        yield expect(head, f"{name}.weight", "hidden_size")
    yield from body(Layer(head, "transformer.", head.decoder, head.attention_bias))
    yield from shipped_tables(head)


HASS_TENSORS = Tensors(
    (*SIZES, "decoder", "attention_bias", "fusion_bias", "layernorms"),
    _tensors,
    marks=("fusion_fc.",),
)
