"""DFlash2: DFlash with convolutions in each layer and a selector among candidate tokens.

Everything else in the file is a valid DFlash config. Source: sgl-project/SpecForge
configs/qwen3.6-27b-dflash2.json, vllm-project/vllm pull request 52816.
"""

from server.config.families.dspine_names import DFLASH2
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, name_only


def claim(file: DraftFile) -> Claim:
    """An architecture *DFlash2*, or a key of the convolutions or of the selector."""
    places = (*by_architecture(file, "DFlash2"), *file.both(*DFLASH2))
    return claim_any(places, "architecture *DFlash2*, conv_ or selector_ key")


FAMILY = name_only("dflash2", "nested", claim)
