"""The drafter families, in the order in which their evidence is weighed.

A new family is one module with a FAMILY (or several FAMILIES) and one line here. An earlier
family's claim wins: DSpine first, since every other reader would drop its bridge without a word;
then what names itself; then DFlash's relatives, each before the family whose config it extends.
"""

from importlib import import_module

from server.config.families.model import Claim, DraftFile, Family

_MODULES = (
    "dspine",
    "dspine_specforge",
    "speculators",
    "lilicorr",
    "dflash2",
    "domino",
    "hspec",
    "dspark_modelopt",
    "dspark_nested",
    "dspark_hybrid",
    "dfly",
    "dflare_nested",
    "dflare_angelspec",
    "jetspec",
    "dspark_flat",
    "dspark_angelspec",
    "dflash_flat",
    "dflash_angelspec",
    "dflash_muse",
    "dflash_nested",
    "edsd",
    "p_eagle",
    "eagle3",
    "medusa",
    "mtp",
    "eagle",
    "draft_model",
)


def _families_in(name: str) -> tuple[Family, ...]:
    module = import_module(f"{__name__}.{name}")
    several: tuple[Family, ...] = getattr(module, "FAMILIES", ())
    return several or (module.FAMILY,)


FAMILIES: tuple[Family, ...] = tuple(family for name in _MODULES for family in _families_in(name))

__all__ = ["FAMILIES", "Claim", "DraftFile", "Family"]
