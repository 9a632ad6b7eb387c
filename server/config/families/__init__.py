"""The drafter families, in the order in which their evidence is weighed.

A new family is one module with a FAMILY and one line here. An earlier family's claim wins:
DSpine first, since every other reader would drop its bridge without a word.
"""

from server.config.families import dflash_flat, dflash_nested, dspark_flat, dspine
from server.config.families.model import Claim, DraftFile, Family

FAMILIES: tuple[Family, ...] = (
    dspine.FAMILY,
    dspark_flat.FAMILY,
    dflash_flat.FAMILY,
    dflash_nested.FAMILY,
)

__all__ = ["FAMILIES", "Claim", "DraftFile", "Family"]
