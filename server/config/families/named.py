"""What the families share that are recognised and refused by name: nothing of them is read.

Such a module says what shows its family; whether other keys of the file are right is not judged.
"""

from collections.abc import Callable, Iterable, Mapping

from server.config.families.marks import EAGLE_MARKS, MARKOV_MARKS, MARKS, foreign_marks
from server.config.families.model import Claim, DraftFile, Family
from server.config.fields import Picked
from server.config.values import same, shorten
from server.findings import JsonValue

_BLOCK = ("DFlash", "DSpark", "DFlare", "DFly", "Domino")


def name_only(family: str, schema_id: str, claim: Callable[[DraftFile], Claim]) -> Family:
    """A family that is refused by its name: it has no reader and no record."""
    return Family(family, schema_id, served=False, claim=claim, read=None)


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
    marks = foreign_marks(file, (*MARKS, *MARKOV_MARKS, *EAGLE_MARKS))
    why = as_block_drafter(file)
    if not why and marks:
        why = f"{marks[0].pointer} is {shorten(marks[0].value)}"
    if not why and not name.endswith("ForCausalLM"):
        why = f"architectures is {shorten(file.raw.get('architectures'))}, *ForCausalLM is needed"
    if not why and not (type(count.value) is int and fits(count.value)):
        why = f"num_hidden_layers is {count.shown}, {layers} is needed"
    return Claim(reason=why) if why else Claim((file.top("architectures"), count))
