"""DFlare as AngelSpec writes it: the architecture says DFlash, model_arch alone says DFlare.

Sources: Tencent/AngelSpec angelspec/models/draft/auto.py and dflare.py.
"""

from collections.abc import Iterator

from server.config.families.angelspec import (
    ANGELSPEC_CHECKS,
    REQUIRED,
    angelspec_tensors,
    pick_angelspec,
)
from server.config.families.block import BLOCK_NEEDS
from server.config.families.form import Form, unserved
from server.config.families.fusion import (
    DFLARE_MARKS,
    SAME_WIDTH,
    context_projections,
    fusion_weights,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import claim_any, equals
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, Tensors


def claim(file: DraftFile) -> Claim:
    """A top-level model_arch dflare."""
    return claim_any(equals(file.top("model_arch"), "dflare"), "model_arch dflare")


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield from angelspec_tensors(draft)
    yield fusion_weights(draft)
    yield from context_projections(draft)


FAMILY = unserved(
    "dflare",
    "angelspec",
    claim,
    Form(pick_angelspec, required=REQUIRED, checks=(*ANGELSPEC_CHECKS, SAME_WIDTH)),
    Tensors(BLOCK_NEEDS, _tensors, marks=DFLARE_MARKS),
)
