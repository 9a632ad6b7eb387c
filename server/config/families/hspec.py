"""H-Spec: a DSpark head over layers that mix Mamba and attention on the target's keys and values.

Its dflash_config says projector_type dspark. Source: sgl-project/SpecForge
specforge/modeling/draft/hspec.py, configs/qwen3-4b-hspec-reference.json. Its tensors are not
stated here: they depend on the block pattern.
"""

from server.config.families.common import pick_draft
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, stated


def claim(file: DraftFile) -> Claim:
    """An architecture *HSpec*, or a hspec_config."""
    places = (*by_architecture(file, "HSpec"), *stated(file.top("hspec_config")))
    return claim_any(places, "architecture *HSpec*, hspec_config")


FAMILY = unserved("hspec", "nested", claim, Form(pick_draft, required=("block_size",)))
