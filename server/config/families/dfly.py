"""DFly: DFlash with fused target layers and a correction of the hidden state.

Source: Tencent/AngelSpec angelspec/config/dfly_qwen3_4b_draft_config.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, name_only, stated


def claim(file: DraftFile) -> Claim:
    """An architecture *DFly*, or a hidden correction."""
    correction = stated(file.top("enable_hidden_correction"), plain=False)
    places = (*by_architecture(file, "DFly"), *correction)
    return claim_any(places, "architecture *DFly*, enable_hidden_correction")


FAMILY = name_only("dfly", "angelspec", claim)
