"""Medusa: heads on the target's last hidden state. The original files name no architecture.

Source: FasterDecoding/Medusa medusa/model/medusa_model.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_block_drafter, claim_any, equals, name_only

_TOLD = 8


def claim(file: DraftFile) -> Claim:
    """Any key medusa_*, or model_type medusa, in a file that does not look like DFlash."""
    block = as_block_drafter(file)
    if block:
        return Claim(reason=block)
    keys = [key for key in file.raw if key.startswith("medusa_")][:_TOLD]
    places = (*equals(file.top("model_type"), "medusa"), *map(file.top, keys))
    return claim_any(places, "medusa_ key, model_type medusa")


FAMILY = name_only("medusa", "flat", claim)
