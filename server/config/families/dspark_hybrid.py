"""DSpark with its Markov head at the top level, while mask token and layer ids stay nested.

Layout anchor-drop, unlike the flat schema. Sources: RadixArk/Kimi-K3-DSpark config.json, the one
public file of this form (a yarn rope); pegainfer-project/pegainfer
pegainfer-k3/src/executor/dspark/mod.rs pins its fields and tensors.
"""

from server.config.families.anchors import shown_layout
from server.config.families.block import MARKOV_FIELDS
from server.config.families.common import pick_draft, pick_either
from server.config.families.form import Form, unserved
from server.config.families.markov import (
    MARKOV_CHECKS,
    REQUIRED,
    TENSORS,
    DSparkDraft,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import stated
from server.config.fields import Picked, pick
from server.config.records import AnchorLayout


def claim(file: DraftFile) -> Claim:
    """A top-level markov_rank other than 0 beside nested mask_token_id or target_layer_ids."""
    rank = stated(file.top("markov_rank"), plain=0)
    facts = stated(file.inner("mask_token_id"), file.inner("target_layer_ids"))
    if rank and facts:
        return Claim((*rank, *facts))
    return Claim(reason="no top-level markov_rank beside nested mask_token_id, target_layer_ids")


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = pick_draft(file) | pick_either(file, *MARKOV_FIELDS)
    tables = ("rope_parameters", "rope_scaling")
    if any(pick(file.raw, table, "rope_type").value == "yarn" for table in tables):
        picked |= shown_layout(file, AnchorLayout.DROP)
    return picked


FAMILY = unserved(
    "dspark", "hybrid", claim, Form(_pick, DSparkDraft, REQUIRED, MARKOV_CHECKS), TENSORS
)
