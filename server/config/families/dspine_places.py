"""Where the keys of a DSpine file are, and how a fault at one of them is told."""

from collections.abc import Mapping

from server.config.families import dspine_names as names
from server.config.families.common import Subject
from server.config.families.model import DraftFile
from server.config.fields import Picked, pick
from server.findings import JsonValue


def deciding_places(file: DraftFile) -> tuple[Picked, ...]:
    """The bridge if there is one, else the DSpine-only keys. Null states nothing."""
    bridge = file.inner(names.BRIDGE)
    if bridge.value is not None:
        return (bridge,)
    keys = [key for key in file.nested if names.is_dspine_key(key)]
    places = [*map(file.inner, keys), file.top(names.SECOND_PASS)]
    return tuple(place for place in places if place.value is not None)


def misplaced(file: DraftFile) -> tuple[Picked, ...]:
    """DSpine keys where nothing reads them. They do not make a file DSpine."""
    keys = [k for k in file.raw if k.startswith(names.PREFIX) or k == names.BLOCK_CAUSAL]
    places = [*map(file.top, keys), file.inner(names.SECOND_PASS)]
    return tuple(place for place in places if place.value is not None)


def bridge_missing(file: DraftFile) -> bool:
    """True when there is no bridge to judge: it is missing, empty, or not an object."""
    bridge = file.inner(names.BRIDGE).value
    return not (isinstance(bridge, Mapping) and bridge)


def in_bridge(file: DraftFile, key: str) -> Picked:
    """The value of a key inside the bridge."""
    return pick(file.raw, "dflash_config", names.BRIDGE, key)


def as_int(value: JsonValue) -> int | None:
    """An integer; None for anything else, true and 16.0 included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def draft_layers(subject: Subject) -> int | None:
    """num_hidden_layers; None when it could not be read."""
    if "num_hidden_layers" in subject.reading.unresolved:
        return None
    return subject.reading.partial.num_hidden_layers
