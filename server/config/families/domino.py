"""Domino: DFlash with a recurrent head over the drafted prefix.

Exported under the architecture of plain DFlash too. Source: sgl-project/SpecForge
configs/qwen3-8b-domino.json, NVIDIA/Model-Optimizer
modelopt/torch/export/plugins/hf_spec_export.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, equals, name_only

_HEAD = ("gru_hidden_dim", "emb_dim", "pure_draft_prefix_len")


def claim(file: DraftFile) -> Claim:
    """Projector type domino, an architecture Domino*, or a key of the head, in dflash_config."""
    places = (*equals(file.inner("projector_type"), "domino"), *by_architecture(file, "Domino"))
    head = map(file.inner, _HEAD)
    return claim_any((*places, *head), "projector_type domino, architecture or head key of Domino")


FAMILY = name_only("domino", "nested", claim)
