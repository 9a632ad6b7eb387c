"""DFlare as AngelSlim writes it: DFlash with fused target layers and their own projections.

Layout anchor-drop; a top-level num_anchors is an option of the trainer. Sources:
Tencent/AngelSlim configs/qwen3_dflare.json and
angelslim/compressor/speculative/train/models/draft/qwen_dflare.py.
"""

from collections.abc import Iterator

from server.config.families.anchors import shown_layout
from server.config.families.block import BLOCK_NEEDS, BLOCK_REQUIRED
from server.config.families.common import pick_draft
from server.config.families.form import Form, unserved
from server.config.families.fusion import (
    DFLARE_MARKS,
    SAME_WIDTH,
    context_projections,
    fusion_weights,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any
from server.config.fields import Picked
from server.config.layers import qwen3_layers
from server.config.records import AnchorLayout, BlockDraft
from server.config.tensors import ExpectedTensor, Tensors, expect


def claim(file: DraftFile) -> Claim:
    """An architecture *DFlare*; the rest of the file is that of nested DFlash."""
    return claim_any(by_architecture(file, "DFlare"), "architecture *DFlare*")


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_draft(file) | shown_layout(file, AnchorLayout.DROP, trainer_anchors=True)


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield expect(draft, "hidden_norm.weight", "hidden_size")
    yield fusion_weights(draft)
    yield from qwen3_layers(draft)
    yield from context_projections(draft)
    yield expect(draft, "norm.weight", "hidden_size")


FAMILY = unserved(
    "dflare",
    "nested",
    claim,
    Form(_pick, required=BLOCK_REQUIRED, checks=(SAME_WIDTH,)),
    Tensors(BLOCK_NEEDS, _tensors, marks=DFLARE_MARKS),
)
