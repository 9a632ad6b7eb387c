"""The drafter families, in the order in which their evidence is weighed.

A new family is one module with a FAMILY (or several FAMILIES) and one line here. An earlier
family's claim wins: DSpine first, since every other reader would drop its bridge without a word;
then what names itself; then DFlash's relatives, each before the family whose config it extends.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from server.config.families.model import Family

_MODULES = (
    "dspine",
    "dspine_specforge",
    "speculators",
    "dflash_open_spec",
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
    "dspark_in_target",
    "dflash_flat",
    "dflash_angelspec",
    "dflash_muse",
    "dflash_nested",
    "edsd",
    "p_eagle",
    "eagle3",
    "medusa",
    "other_heads",
    "mtp",
    "eagle",
    "draft_model",
)


def known_families() -> Iterator[Family]:
    """Every family, in order.

    A module is imported when its turn comes, so that a refusal waits for no family after its own.
    """
    for name in _MODULES:
        yield from _families_in(name)


@cache
def _families_in(name: str) -> tuple[Family, ...]:
    module = import_module(f"{__name__}.{name}")
    several: tuple[Family, ...] = getattr(module, "FAMILIES", ())
    return several or (module.FAMILY,)
