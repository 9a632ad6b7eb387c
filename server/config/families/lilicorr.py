"""LiLiCorr: DFlash with a low-rank correction of its logits, as Model-Optimizer exports it.

It may have DFlash2's convolutions too. Source: NVIDIA/Model-Optimizer
modelopt/torch/export/plugins/hf_spec_export.py. Its tensors (lilicorr.*) are not stated here.
"""

from server.config.families.common import pick_draft
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, equals

_REQUIRED = ("mask_token_id", "target_layer_ids")


def claim(file: DraftFile) -> Claim:
    """Projector type lilicorr, or an architecture LiLiCorr*."""
    projector = equals(file.inner("projector_type"), "lilicorr")
    places = (*projector, *by_architecture(file, "LiLiCorr"))
    return claim_any(places, "projector_type lilicorr, architecture LiLiCorr*")


FAMILY = unserved("lilicorr", "modelopt", claim, Form(pick_draft, required=_REQUIRED))
