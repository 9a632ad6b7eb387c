"""DSpark as Model-Optimizer exports it: nested, under the architecture of plain DFlash.

Layout anchor-first, unlike SpecForge's nested files; its tensors have no markov_head prefix, and
its confidence head always reads the Markov embedding. Sources: NVIDIA/Model-Optimizer
modelopt/torch/export/plugins/hf_spec_export.py, modelopt/torch/speculative/plugins/
modeling_dspark.py (tensors, ranges), modeling_draft_checkpoint_compat.py (a release that has the
prefix).
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from server.config.families.anchors import shown_layout
from server.config.families.block import (
    MARKOV_NEEDS,
    block_tensors,
    confidence_tensors,
    markov_tensors,
)
from server.config.families.common import pick_draft, pick_either
from server.config.families.form import Form, unserved
from server.config.families.markov import REQUIRED, DSparkDraft
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, stated
from server.config.fields import Picked, given
from server.config.records import AnchorLayout, BlockDraft
from server.config.tensors import ExpectedTensor, Tensors


class ModelOptDSparkDraft(DSparkDraft):
    """DSpark as Model-Optimizer builds it, never without a Markov head."""

    markov_rank: Annotated[int, Field(gt=0, le=2**20)]
    shift_label: bool | None = None


def claim(file: DraftFile) -> Claim:
    """Nested projector_type dspark with a key that only this exporter writes beside it."""
    head = equals(file.inner("projector_type"), "dspark")
    own = stated(file.inner("shift_label"), plain=False)
    own += stated(file.inner("use_confidence_head"))
    if head and own:
        return Claim((*head, *own))
    return Claim(reason="no projector_type dspark with shift_label or use_confidence_head")


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = pick_draft(file) | pick_either(file, "markov_rank", "markov_head_type")
    picked["shift_label"] = file.inner("shift_label")
    picked["enable_confidence_head"] = file.inner("use_confidence_head")
    picked["confidence_head_with_markov"] = given(True)
    if file.inner("shift_label").value is True:
        picked |= shown_layout(file, AnchorLayout.FIRST)
    return picked


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield from block_tensors(draft)
    yield from markov_tensors(draft, prefix="")
    yield from confidence_tensors(draft, "confidence_proj")


_MARKS = ("markov_w1.", "markov_w2.", "confidence_proj.")
_TENSORS = Tensors(MARKOV_NEEDS, _tensors, aliases=(("markov_head.", ""),), marks=_MARKS)

FAMILY = unserved("dspark", "modelopt", claim, Form(_pick, ModelOptDSparkDraft, REQUIRED), _TENSORS)
