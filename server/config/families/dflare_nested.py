"""DFlare as AngelSlim writes it: DFlash with fused target layers and their own projections.

Source: Tencent/AngelSlim configs/qwen3_dflare.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, name_only


def claim(file: DraftFile) -> Claim:
    """An architecture *DFlare*; the rest of the file is that of nested DFlash."""
    return claim_any(by_architecture(file, "DFlare"), "architecture *DFlare*")


FAMILY = name_only("dflare", "nested", claim)
