"""JSON values as people see them: pointers, shortened values, and locations that hold them."""

import json
import math
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from server.findings import JsonValue, Location
from server.redact import redacted

_TEXT_CHARS = 120
_KEY_CHARS = 80
_ITEMS = 12
_DEPTH = 3
_SHOWN_CHARS = 96


class Source(NamedTuple):
    """A file as findings name it: the role it plays (draft, target) and its path."""

    role: str
    file: str

    def at(self, pointer: str, value: JsonValue) -> Location:
        """The location of `value`, cut to a size that fits a report."""
        return Location(role=self.role, file=self.file, pointer=pointer, value=clip(value))

    def near(self, pointer: str) -> Location:
        """The location of something that is not there."""
        return Location(role=self.role, file=self.file, pointer=pointer, has_value=False)


def pointer(*keys: str | int) -> str:
    """The JSON pointer (RFC 6901) of a path of keys and list positions. Long keys are cut."""
    plain = [k for k in keys if isinstance(k, str) and k.isidentifier() and len(k) <= _KEY_CHARS]
    if len(plain) == len(keys):  # nearly all of them
        return f"/{'/'.join(plain)}" if plain else ""
    return "".join(
        f"/{_cut(str(k), _KEY_CHARS).replace('~', '~0').replace('/', '~1')}" for k in keys
    )


def clip(value: JsonValue, depth: int = _DEPTH) -> JsonValue:
    """`value` with long texts, long lists and deep nesting cut; NaN and infinity become text."""
    if isinstance(value, str):
        return _cut(value, _TEXT_CHARS)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return _clip_object(value, depth)
    if isinstance(value, list | tuple):
        return _clip_list(value, depth)
    return value


def shorten(value: JsonValue) -> str:
    """`value` as JSON text of at most about 100 characters, for a message."""
    return _cut(json.dumps(clip(value), ensure_ascii=False), _SHOWN_CHARS)


def kind(value: JsonValue) -> str:
    """What `value` is in JSON's own words: null, boolean, integer, number, string, ..."""
    if value is None:
        return "null"
    names = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
    found = next((name for cls, name in names if isinstance(value, cls)), None)
    return found or ("object" if isinstance(value, Mapping) else "list")


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equal as JSON: true is not 1, but 1000000 is 1000000.0."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def token_ids(value: JsonValue) -> tuple[int, ...]:
    """The token ids that a config states as one id or as a list; null and others state none."""
    tokens = value if isinstance(value, list) else [value]
    return tuple(token for token in tokens if type(token) is int)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    whole = redacted(text)  # what is left of a secret that is cut is not known as one
    return f"{whole[:limit]}... ({len(text)} characters)"


def _clip_object(value: Mapping[str, JsonValue], depth: int) -> JsonValue:
    if depth == 0 and value:
        return f"an object of {len(value)} keys"
    items = islice(value.items(), _ITEMS)
    cut: dict[str, JsonValue] = {_cut(k, _KEY_CHARS): clip(v, depth - 1) for k, v in items}
    if len(value) > _ITEMS:
        cut["..."] = f"{len(value) - _ITEMS} more keys"
    return cut


def _clip_list(value: list[JsonValue] | tuple[JsonValue, ...], depth: int) -> JsonValue:
    if depth == 0 and value:
        return f"a list of {len(value)} items"
    cut = [clip(item, depth - 1) for item in islice(value, _ITEMS)]
    if len(value) > _ITEMS:
        cut.append(f"... {len(value) - _ITEMS} more items")
    return cut
