"""The tensors of EAGLE's relatives: ordinary decoder layers, some of which read a wider input.

Sources: SafeAILab/EAGLE eagle/model/cnets.py and cnets1.py, vllm-project/speculators
src/speculators/models/eagle3/core.py and model_definitions.py, sgl-project/SpecForge
specforge/modeling/draft/peagle.py.
"""

from collections.abc import Iterator
from dataclasses import replace

from server.config.families.block import shipped_embedding, shipped_tables
from server.config.families.eagle_fields import DecoderDraft, EagleDraft
from server.config.layers import SIZES, Layer, body, whole
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, expect

EAGLE3_NEEDS = (
    *(*SIZES, "decoder", "captured_count", "draft_vocab_size", "target_hidden_size"),
    *("attention_bias", "use_aux_hidden_state", "norm_before_fc", "fc_norm"),
)
# AngelSlim and SafeAILab write the first name, speculators and ModelOpt the second.
EAGLE3_ALIASES = (("midlayer.", "layers.0."),)
CAPTURED = "captured_count*target_hidden_size"
_WIDE = "2*hidden_size"


def eagle3_tensors(head: EagleDraft) -> Iterator[ExpectedTensor]:
    """fc.weight [H, captured * H_target], layers of which the first reads [*, 2H], norm, tables."""
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


def p_eagle_tensors(head: EagleDraft) -> Iterator[ExpectedTensor]:
    """EAGLE-3's, and mask_hidden [1, 1, captured * H_target], as both trainers write it."""
    yield from eagle3_tensors(head)
    yield expect(head, "mask_hidden", "1", "1", CAPTURED)


def eagle_tensors(head: DecoderDraft) -> Iterator[ExpectedTensor]:
    """EAGLE-1 and 2: fc.weight [H, 2H], layers of which the first may lack its first norm."""
    yield expect(head, "fc.weight", "hidden_size", _WIDE)
    yield expect(head, "fc.bias", "hidden_size", needed=False)
    for i in range(head.num_hidden_layers):
        name = f"layers.{i}."
        yield expect(head, f"{name}input_layernorm.weight", "hidden_size", needed=i > 0)
        yield from body(Layer(head, name, head.decoder, head.attention_bias))
    yield from shipped_tables(head)


def draft_tables(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """The draft's own head, and with a reduced vocabulary the two maps between vocabularies.

    d2t [draft_vocab] holds offsets: target id = draft id + d2t. t2d [vocab] marks the tokens kept.
    """
    rows = draft.draft_vocab_size
    reduced = rows is not None and rows < draft.vocab_size
    head = ("draft_vocab_size", "hidden_size")
    yield expect(draft, "lm_head.weight", *head, needed=reduced, loaded=reduced)
    yield shipped_embedding(draft)
    for name, size, dtype in (("d2t", "draft_vocab_size", "I64"), ("t2d", "vocab_size", "BOOL")):
        told = expect(draft, name, size, needed=reduced, loaded=False)
        yield replace(told, dtypes=(dtype,))
