"""What a drafter family is: how it recognises a file, and how it reads it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from server.config.backbone import differs
from server.config.checks import Reading
from server.config.fields import Picked, pick
from server.config.records import BlockDraft
from server.config.rules import finding
from server.config.tensors import Tensors
from server.config.values import Source
from server.findings import Finding, JsonValue, Location

UNKNOWN = "unknown"  # the family of a file that no family claims
_EMPTY: Mapping[str, JsonValue] = {}


class DraftFile(NamedTuple):
    """A draft's config.json, raw. `strict` turns ignored keys into errors.

    `tensors` are the names in the safetensors headers, where they were read (see `Draft`).
    """

    raw: Mapping[str, JsonValue]
    source: Source
    strict: bool = False
    tensors: frozenset[str] | None = None

    @property
    def nested(self) -> Mapping[str, JsonValue]:
        """The object at dflash_config; empty when there is none."""
        value = self.raw.get("dflash_config")
        return value if isinstance(value, Mapping) else _EMPTY

    @property
    def architecture(self) -> str | None:
        """The one entry of architectures; None when there is none, or more than one."""
        names = self.raw.get("architectures")
        if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
            return names[0]
        return None

    def top(self, key: str) -> Picked:
        """The value of a top-level key."""
        return pick(self.raw, key)

    def inner(self, key: str) -> Picked:
        """The value of a key inside dflash_config."""
        return pick(self.raw, "dflash_config", key)

    def both(self, *keys: str) -> tuple[Picked, ...]:
        """Each key at the top level and inside dflash_config."""
        return tuple(place for key in keys for place in (self.top(key), self.inner(key)))

    def at(self, place: Picked) -> Location:
        """A picked place, for a finding."""
        if not place.present:
            return self.source.near(place.pointer)
        return self.source.at(place.pointer, place.value)


def fault(rule: str, file: DraftFile, place: Picked, need: str) -> Finding:
    """A finding that says what stands at `place` and what is needed there."""
    return finding(rule, f"draft {place.name} is {place.shown}, {need}", file.at(place))


def faults(
    rule: str, file: DraftFile, places: Iterable[Picked], wanted: JsonValue, need: str
) -> Iterator[Finding]:
    """One fault for each place that states anything but `wanted`. Null states nothing."""
    return (fault(rule, file, place, need) for place in places if differs(place.value, wanted))


class Claim(NamedTuple):
    """Whether a family recognises a file: the deciding places, or why not in `reason`.

    With both, the places show that the file's family cannot be told, for that reason: it is
    unknown, and no later family is asked.
    """

    evidence: tuple[Picked, ...] = ()
    reason: str = ""


class Family(NamedTuple):
    """One drafter family in one on-disk schema.

    `claim` looks at keys and values (and at tensors, where no key can tell), never at a path or a
    name of a file. `read` is called for a claimed file only; it reports every fault of the file
    in one pass, and is None where no algorithm is named. `tensors` is None where this server does
    not state them; the header of such a draft is not opened.
    """

    id: str
    schema_id: str
    served: bool
    claim: Callable[[DraftFile], Claim]
    read: Callable[[DraftFile], Reading[BlockDraft]] | None
    tensors: Tensors | None = None
