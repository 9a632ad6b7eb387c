"""DFlash as AngelSpec writes it: flat, without block size, and with tensors of other names.

With fusion_type gated_sum the captured layers are weighed by a gate, in place of a projection.
Sources: Tencent/AngelSpec angelspec/config/dflash_draft_config.json,
angelspec/models/draft/dflash.py and dflash_gated.py.
"""

from collections.abc import Iterator
from typing import Literal

from server.config.checks import Check
from server.config.families.angelspec import (
    ANGELSPEC_CHECKS,
    REQUIRED,
    angelspec_tensors,
    claim_angelspec,
    context_projection,
    pick_angelspec,
)
from server.config.families.block import BLOCK_NEEDS
from server.config.families.common import Subject
from server.config.families.form import Form, unserved
from server.config.families.fusion import same_width
from server.config.families.marks import ALL_MARKS, foreign_key
from server.config.families.model import Claim, DraftFile
from server.config.fields import Picked
from server.config.records import BlockDraft, Positive
from server.config.tensors import ExpectedTensor, Tensors, expect
from server.findings import Finding

_GATED = "gated_sum"


class AngelSpecDraft(BlockDraft):
    """A block draft of AngelSpec. No fusion type means concat_fc."""

    fusion_type: Literal["concat_fc", "gated_sum"] | None = None
    gate_temperature: Positive | None = None


def claim(file: DraftFile) -> Claim:
    """DFlashDraftModel with model_type dflash, no dflash_config, and no key of another family."""
    own, foreign = claim_angelspec(file, "DFlashDraftModel", "dflash"), foreign_key(file, ALL_MARKS)
    return Claim(reason=foreign) if own.evidence and foreign else own


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_angelspec(file, "fusion_type", "gate_temperature")


def _gated_width(subject: Subject) -> Iterator[Finding]:
    if subject.file.top("fusion_type").value == _GATED:
        yield from same_width(subject)


def _tensors(draft: AngelSpecDraft) -> Iterator[ExpectedTensor]:
    yield from angelspec_tensors(draft)
    if draft.fusion_type != _GATED:
        yield context_projection(draft)
        return
    yield expect(draft, "layer_gate", "len(target_layer_ids)")
    for captured in range(len(draft.target_layer_ids)):
        yield expect(draft, f"candidate_norms.{captured}.weight", "target_hidden_size")


_WIDTHS = Check("SD110", ("fusion_type", "target_hidden_size", "hidden_size"), _gated_width)

FAMILY = unserved(
    "dflash",
    "angelspec",
    claim,
    Form(_pick, AngelSpecDraft, REQUIRED, (*ANGELSPEC_CHECKS, _WIDTHS)),
    Tensors((*BLOCK_NEEDS, "fusion_type"), _tensors),
)
