"""Strict field reading: picked JSON values into one frozen record, every fault a finding.

A reader picks the values of its schema (`pick`, `pick_one`, `pick_rope_theta`), then
`read_record` validates them in strict mode: true is not 1, 16.0 and "16" are not 16.
The checks of the decoder geometry that target and draft share are in `backbone.py`.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from server.config.checks import Reading
from server.config.records import Record
from server.config.rules import finding
from server.config.values import Source, kind, pointer, same, shorten
from server.findings import Finding, JsonValue, outcome_by_rule

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

R = TypeVar("R", bound=Record)

_Fault = tuple[str, tuple[Finding, ...]]

_RULES = ("SD105", "SD107", "SD108", "SD110")
_RANGE_TYPES = frozenset(
    ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number")
)
_LIMIT_ITEMS = 4096
_TOLD_PER_FIELD = 8
_LIMITS = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))


class Picked(NamedTuple):
    """One value as picked from a file.

    `present` is False when no place holds it; `pointer` then says where it was looked for.
    `findings` are faults that were seen while picking (SD110: two places disagree); with any,
    the field is unresolved and `value` is not used. `waits_on`: it is unresolved because of
    what that rule tells.
    """

    value: JsonValue
    pointer: str
    present: bool = True
    findings: tuple[Finding, ...] = ()
    waits_on: str = ""

    @property
    def name(self) -> str:
        """The key as messages name it: dflash_config.block_size."""
        return self.pointer.removeprefix("/").replace("/", ".")

    def key(self, field: str) -> str:
        """The key that the file has for `field`, where it is another than the record's."""
        last = self.pointer.rpartition("/")[2]
        return field if not last or last.isdigit() else last

    @property
    def shown(self) -> str:
        """The value as messages show it."""
        return shorten(self.value) if self.present else "missing"


def pick(raw: JsonValue, *keys: str) -> Picked:
    """The value at the path `keys` of `raw`; missing when a step is absent or not an object."""
    for key in keys:
        if not (type(raw) is dict or isinstance(raw, Mapping)) or key not in raw:
            return Picked(None, pointer(*keys), present=False)
        raw = raw[key]
    return Picked(raw, pointer(*keys))


def given(value: JsonValue) -> Picked:
    """A value that the reader itself decides (family, layout); it has no place in the file."""
    return Picked(value, "")


def said(place: Picked) -> Picked:
    """The place, where null counts as absent."""
    return place if place.value is not None else place._replace(present=False)


def pick_one(name: str, source: Source, *places: Picked) -> Picked:
    """The first place with a value; SD110 when another place has another value.

    A null beside a value states nothing.
    """
    found = [place for place in places if place.present]
    if not found:
        return places[0]
    first, *others = [place for place in found if place.value is not None] or found[:1]
    clashes = tuple(
        _clash(name, source, first, other) for other in others if not same(first.value, other.value)
    )
    return Picked(first.value, first.pointer, findings=clashes)


def pick_rope_theta(raw: Mapping[str, JsonValue], source: Source) -> Picked:
    """rope_theta from the top level or the rope table (transformers 5); all must agree.

    A null beside a number states nothing: transformers writes it for per-layer-type tables. Where
    only such tables state it, they must agree; else there is no one base, which SD308 tells.
    """
    tables = ("rope_parameters", "rope_scaling")
    places = (pick(raw, "rope_theta"), *(pick(raw, table, "rope_theta") for table in tables))
    stated = [place for place in places if place.present and place.value is not None]
    by_type = [place for table in tables for place in _by_layer_type(raw, table)]
    if stated or not by_type:
        return pick_one("rope_theta", source, *(stated or places))
    first, *others = by_type
    agree = all(same(first.value, other.value) for other in others)
    return first if agree else first._replace(waits_on="SD308")


def _by_layer_type(raw: Mapping[str, JsonValue], table: str) -> Iterator[Picked]:
    kinds = raw.get(table)
    for kind_of_layer in kinds if isinstance(kinds, Mapping) else ():
        place = pick(raw, table, kind_of_layer, "rope_theta")
        if place.value is not None:
            yield place


def read_record(
    record_type: type[R],
    picked: Mapping[str, Picked],
    source: Source,
    waits: Mapping[str, str] = MappingProxyType({}),
) -> Reading[R]:
    """Validate `picked` (field name to value) as a `record_type`.

    Findings: SD105 missing, SD107 wrong type or null, SD108 out of range, SD110 from picking.
    `unresolved` maps each faulty field to its rule; the other fields are in `partial`. `waits`
    maps a field that may be missing to the rule that its absence waits on; it is no fault.
    """
    absent = (name for name in waits if name not in picked or not picked[name].present)
    faults: dict[str, _Fault] = {name: (waits[name], ()) for name in absent}
    faults |= dict(_picking_faults(record_type, picked, source, known=set(faults)))
    values = {n: p.value for n, p in picked.items() if p.present and n not in faults}
    record = None
    try:
        record = record_type.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults.update(_validation_faults(details, picked, source, known=set(faults)))
    valid: dict[str, Any] = {
        name: _frozen(value) for name, value in values.items() if name not in faults
    }
    findings = [f for _, found in faults.values() for f in found]
    return Reading(
        role=source.role,
        file=source.file,
        partial=record or record_type.model_construct(**valid),
        record=None if faults else record,
        unresolved={name: rule for name, (rule, _) in faults.items()},
        pointers={name: place.pointer for name, place in picked.items()},
        outcome=outcome_by_rule(dict.fromkeys((*_RULES, *(f.rule for f in findings))), findings),
    )


def _picking_faults(
    record_type: type[Record], picked: Mapping[str, Picked], source: Source, known: set[str]
) -> Iterator[tuple[str, _Fault]]:
    for name, place in picked.items():
        required = record_type.model_fields[name].is_required() and name not in known
        if place.findings or place.waits_on:
            rule = place.waits_on or place.findings[0].rule
            yield name, (rule, place.findings)
        elif not place.present and required:
            message = f"{source.role} {place.key(name)} is missing"
            yield name, ("SD105", (finding("SD105", message, source.near(place.pointer)),))
        elif isinstance(place.value, float) and not abs(place.value) < float("inf"):
            yield name, ("SD106", ())  # told by the JSON reader
        elif isinstance(place.value, list) and len(place.value) > _LIMIT_ITEMS:
            has = f"{source.role} {place.key(name)} has {len(place.value)} items"
            message = f"{has}, at most {_LIMIT_ITEMS}"
            where = source.at(place.pointer, place.value)
            yield name, ("SD108", (finding("SD108", message, where),))


def _validation_faults(
    details: "list[ErrorDetails]",
    picked: Mapping[str, Picked],
    source: Source,
    known: set[str],
) -> Iterator[tuple[str, _Fault]]:
    for name, group in groupby(details, key=lambda detail: str(detail["loc"][0])):
        if name in known:
            continue
        if name not in picked:
            yield name, ("SD105", (finding("SD105", f"{source.role} {name} is missing"),))
            continue
        # pydantic counts only valid items, and so calls a list of wrong ones too short as well.
        errors = [e for e in group if not (e["type"] == "too_short" and e["input"])]
        told = [_describe(e, picked[name], source) for e in errors[:_TOLD_PER_FIELD]]
        if len(errors) > len(told):
            more = f"{told[-1].message}, and {len(errors) - len(told)} more"
            told[-1] = told[-1]._replace(message=more)
        yield name, (told[0].rule, tuple(told))


def _describe(error: "ErrorDetails", place: Picked, source: Source) -> Finding:
    field, *inside = map(str, error["loc"])
    name = "/".join((place.key(field), *inside))
    where = place.pointer + pointer(*error["loc"][1:])
    value: JsonValue = error["input"]
    if error["type"] in _RANGE_TYPES and not isinstance(value, bool):
        rule, need = "SD108", _range(error.get("ctx", {}))
    elif error["type"] == "too_short":
        rule, need = "SD108", "at least one item is needed"
    else:
        rule, need = "SD107", _needed(error)
    message = f"{source.role} {name} is {shorten(value)}, {need}"
    return finding(rule, message, source.at(where, value))


def _range(context: Mapping[str, Any]) -> str:
    stated = [(words, context[key]) for key, words in _LIMITS if key in context]
    limits = [f"{words} {shorten(_plain(limit))}" for words, limit in stated]
    return f"{' and '.join(limits) or 'a finite number'} is needed"


def _plain(limit: float) -> float:
    return int(limit) if limit == int(limit) else limit


def _needed(error: "ErrorDetails") -> str:
    if error["type"] == "literal_error":
        return f"one of {error['ctx']['expected']} is needed"
    words = error["type"].removesuffix("_type").removesuffix("_parsing")
    wanted = {"int": "an integer", "float": "a number", "bool": "true or false"}
    wanted |= {"string": "a string", "tuple": "a list", "none_required": "null"}
    found = kind(error["input"])
    return f"{wanted.get(words, words.replace('_', ' '))} is needed, found {found}"


def _clash(name: str, source: Source, first: Picked, other: Picked) -> Finding:
    message = (
        f"{source.role} {name} is {shorten(first.value)} at {first.pointer} "
        f"and {shorten(other.value)} at {other.pointer}"
    )
    places = (source.at(first.pointer, first.value), source.at(other.pointer, other.value))
    return finding("SD110", message, *places)


def _frozen(value: JsonValue) -> object:
    return tuple(value) if isinstance(value, list) else value
