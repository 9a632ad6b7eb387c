"""What claims look at: an architecture, a key that states something, a causal language model."""

from collections.abc import Callable, Iterable, Mapping

from server.config.families.marks import ALL_MARKS, EAGLE_MARKS, foreign_key
from server.config.families.model import Claim, DraftFile
from server.config.fields import Picked
from server.config.values import same, shorten
from server.findings import JsonValue

# PARD trains a complete model to draft in parallel, and adds a pard_token to its file.
_NOT_CAUSAL = tuple(mark for mark in (*ALL_MARKS, *EAGLE_MARKS) if mark.key != "pard_token")
_BLOCK = ("DFlash", "DSpark", "DFlare", "DFly", "Domino")


def claim_any(places: Iterable[Picked], wanted: str) -> Claim:
    """A claim on those of `places` that state something; else the reason is: no `wanted`."""
    found = stated(*places)
    return Claim(found) if found else Claim(reason=f"no {wanted}")


def stated(*places: Picked, plain: JsonValue = None) -> tuple[Picked, ...]:
    """The places that state anything but `plain`. Null states nothing."""
    return tuple(p for p in places if p.value is not None and not same(p.value, plain))


def by_architecture(file: DraftFile, *words: str) -> tuple[Picked, ...]:
    """The place of architectures when its one entry contains one of `words`."""
    name = file.architecture or ""
    return (file.top("architectures"),) if any(word in name for word in words) else ()


def equals(place: Picked, value: str) -> tuple[Picked, ...]:
    """The place when it holds `value`."""
    return (place,) if place.value == value else ()


def has_nested(file: DraftFile) -> bool:
    """True when there is an object at dflash_config."""
    return isinstance(file.raw.get("dflash_config"), Mapping)


def as_block_drafter(file: DraftFile) -> str:
    """How the file looks like DFlash or a relative; empty when it does not.

    Such a file is not named by a stray key of a family that is no relative.
    """
    if file.raw.get("dflash_config") is not None:
        return "there is a dflash_config"
    named = by_architecture(file, *_BLOCK)
    return f"architectures is {shorten(file.architecture)}" if named else ""


def as_causal_lm(file: DraftFile, layers: str, fits: Callable[[int], bool]) -> Claim:
    """A claim on a causal language model whose number of `layers` fits, with no drafter's key."""
    count, name = file.top("num_hidden_layers"), file.architecture or ""
    why = as_block_drafter(file) or foreign_key(file, _NOT_CAUSAL)
    if not why and not name.endswith("ForCausalLM"):
        why = f"architectures is {shorten(file.raw.get('architectures'))}, *ForCausalLM is needed"
    if not why and not (type(count.value) is int and fits(count.value)):
        why = f"num_hidden_layers is {count.shown}, {layers} is needed"
    return Claim(reason=why) if why else Claim((file.top("architectures"), count))
