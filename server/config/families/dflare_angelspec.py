"""DFlare as AngelSpec writes it: the architecture says DFlash, model_arch alone says DFlare.

Source: Tencent/AngelSpec angelspec/models/draft/auto.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import claim_any, equals, name_only


def claim(file: DraftFile) -> Claim:
    """A top-level model_arch dflare."""
    return claim_any(equals(file.top("model_arch"), "dflare"), "model_arch dflare")


FAMILY = name_only("dflare", "angelspec", claim)
