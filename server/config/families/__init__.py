"""The drafter families, in the order in which their evidence is weighed.

A new family is one module with a FAMILY and one line here. An earlier family's claim wins:
DSpine first, since every other reader would drop its bridge without a word; then what names
itself; then DFlash's relatives, each before the family whose config it extends.
"""

from server.config.families import (
    dflare_angelspec,
    dflare_nested,
    dflash2,
    dflash_angelspec,
    dflash_flat,
    dflash_nested,
    dfly,
    domino,
    draft_model,
    dspark_angelspec,
    dspark_flat,
    dspark_hybrid,
    dspark_modelopt,
    dspark_nested,
    dspine,
    eagle,
    eagle3,
    jetspec,
    medusa,
    mtp,
    p_eagle,
    speculators,
)
from server.config.families.model import Claim, DraftFile, Family

FAMILIES: tuple[Family, ...] = (
    dspine.FAMILY,
    *speculators.FAMILIES,
    dflash2.FAMILY,
    domino.FAMILY,
    dspark_modelopt.FAMILY,
    dspark_nested.FAMILY,
    dspark_hybrid.FAMILY,
    dfly.FAMILY,
    dflare_nested.FAMILY,
    dflare_angelspec.FAMILY,
    jetspec.FAMILY,
    dspark_flat.FAMILY,
    dspark_angelspec.FAMILY,
    dflash_flat.FAMILY,
    dflash_angelspec.FAMILY,
    dflash_nested.FAMILY,
    p_eagle.FAMILY,
    eagle3.FAMILY,
    medusa.FAMILY,
    mtp.FAMILY,
    eagle.FAMILY,
    draft_model.FAMILY,
)

__all__ = ["FAMILIES", "Claim", "DraftFile", "Family"]
