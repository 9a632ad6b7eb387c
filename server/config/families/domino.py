"""Domino: DFlash with a recurrent head over the drafted prefix.

Exported under the architecture of plain DFlash too. Layout anchor-drop: B-1 tokens are taken,
with and without shift_label. Sources: sgl-project/SpecForge configs/qwen3-8b-domino.json and
specforge/modeling/draft/domino.py, NVIDIA/Model-Optimizer
modelopt/torch/export/plugins/hf_spec_export.py.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from server.config.families.block import BLOCK_NEEDS, BLOCK_REQUIRED, block_tensors
from server.config.families.common import given_layout, pick_draft, pick_either
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, equals
from server.config.fields import Picked
from server.config.records import AnchorLayout, BlockDraft, Count
from server.config.tensors import ExpectedTensor, Tensors, expect

_HEAD = ("gru_hidden_dim", "emb_dim", "pure_draft_prefix_len")


class DominoDraft(BlockDraft):
    """A block draft with Domino's recurrent head; sizes in elements."""

    gru_hidden_dim: Count
    emb_dim: Count
    pure_draft_prefix_len: Annotated[int, Field(ge=0)] = 0
    shift_label: bool = False


def claim(file: DraftFile) -> Claim:
    """Projector type domino, an architecture Domino*, or a key of the head, in dflash_config."""
    places = (*equals(file.inner("projector_type"), "domino"), *by_architecture(file, "Domino"))
    head = map(file.inner, _HEAD)
    return claim_any((*places, *head), "projector_type domino, architecture or head key of Domino")


def _pick(file: DraftFile) -> dict[str, Picked]:
    head = pick_either(file, *_HEAD, "shift_label")
    return pick_draft(file) | head | {"layout": given_layout(AnchorLayout.DROP)}


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield from block_tensors(draft)
    gates, wide = "3*gru_hidden_dim", "hidden_size+gru_hidden_dim"
    yield expect(draft, "prefix_gru.weight_ih_l0", gates, "hidden_size")
    yield expect(draft, "prefix_gru.weight_hh_l0", gates, "gru_hidden_dim")
    yield expect(draft, "embed_proj.0.weight", "emb_dim", wide)
    yield expect(draft, "embed_proj.2.weight", "vocab_size", "emb_dim")


_REQUIRED = (*BLOCK_REQUIRED, "gru_hidden_dim", "emb_dim")
_NEEDS = (*BLOCK_NEEDS, "gru_hidden_dim", "emb_dim")

FAMILY = unserved(
    "domino",
    "nested",
    claim,
    Form(_pick, DominoDraft, _REQUIRED),
    Tensors(_NEEDS, _tensors, (("logit_head.", ""),), marks=("prefix_gru.", "embed_proj.")),
)
