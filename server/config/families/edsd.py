"""EDSD: EAGLE-3's layer without its wider input, behind a gated fusion with the embedding.

Two captured layers, whose outputs target_layer_ids names; draft_vocab_size as in EAGLE-3, so that
the architecture alone tells. Source: sgl-project/SpecForge specforge/modeling/draft/edsd.py,
configs/qwen3-8b-edsd.json.
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.common import Subject
from server.config.families.eagle_fields import EagleDraft, pick_eagle3
from server.config.families.eagle_tensors import (
    CAPTURED,
    EAGLE3_NEEDS,
    draft_tables,
)
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any
from server.config.families.relations import told
from server.config.layers import Layer, body, gated_mlp
from server.config.tensors import ExpectedTensor, Tensors, expect
from server.findings import Finding

_CAPTURED = 2


def claim(file: DraftFile) -> Claim:
    """An architecture Edsd*."""
    return claim_any(by_architecture(file, "Edsd", "EDSD"), "architecture Edsd*")


def _count(subject: Subject) -> Iterator[Finding]:
    ids = subject.reading.partial.target_layer_ids
    if len(ids) != _CAPTURED:
        message = f"draft target_layer_ids holds {len(ids)} ids, {_CAPTURED} are needed"
        yield told(subject, "SD108", message, "target_layer_ids")


def _tensors(head: EagleDraft) -> Iterator[ExpectedTensor]:
    yield expect(head, "fc.weight", "hidden_size", CAPTURED)
    yield expect(head, "embnorm.weight", "hidden_size")
    yield from gated_mlp(head, "edfuse.", "intermediate_size")
    yield expect(head, "midlayer.hidden_norm.weight", "hidden_size")
    yield from body(Layer(head, "midlayer.", head.decoder))
    yield expect(head, "norm.weight", "hidden_size")
    yield from draft_tables(head)


_REQUIRED = ("hidden_size", "vocab_size", "target_layer_ids")
_CHECKS = (Check("SD108", ("target_layer_ids",), _count),)
_TENSORS = Tensors(EAGLE3_NEEDS, _tensors, marks=("edfuse.", "embnorm."))

FAMILY = unserved(
    "edsd", "flat", claim, Form(pick_eagle3, EagleDraft, _REQUIRED, _CHECKS), _TENSORS
)
