"""Makes text from files, paths and flags safe to print: one line, no control of the terminal."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from server.findings import JsonValue
from server.redact import redacted

MAX_VALUE = 64
MAX_WORD = 400
MAX_TEXT = 4000
_MAX_DEPTH = 8
# str(int) refuses longer numbers, see sys.set_int_max_str_digits.
MAX_INT_BITS = 10_000


def visible(text: str) -> str:
    """`text` with each unprintable character (control, bidi, lone surrogate) as an escape.

    Secrets are left out.
    """
    text = redacted(text)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    return text


def _escape(char: str) -> str:
    """One character as \\xNN, \\uNNNN or \\UNNNNNNNN."""
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """`text`, or its two ends and its length where it is longer than `limit`.

    A part of a secret is a secret too, so that secrets are left out first.
    """
    text = redacted(text)
    if len(text) <= limit:
        return text
    remark = f" ({len(text)} characters)"
    tail = limit // 4
    head = max(limit - tail - len(remark) - 3, 1)
    return f"{text[:head]}...{text[-tail:]}{remark}"


def word(text: str) -> str:
    """`text` as one word: as it is, or in quotes where it holds a space or something unseen."""
    short = shorten(text, MAX_WORD)
    plain = short.isprintable() and short and not any(char in " '\"`" for char in short)
    return short if plain else visible(_quoted(short))


def show(value: JsonValue, limit: int = MAX_VALUE) -> str:
    """A JSON value on one line, cut to about `limit` characters."""
    return visible(_show(value, limit, 0))


def _show(value: JsonValue, limit: int, depth: int) -> str:
    """`value` as JSON text, not yet escaped."""
    if isinstance(value, str):
        return _quoted(shorten(value, limit))
    if isinstance(value, Mapping | Sequence):
        return _show_items(value, limit, depth)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else str(value)
    if type(value) is int and value.bit_length() > MAX_INT_BITS:
        return f"(an integer of {value.bit_length()} bits)"
    return shorten(_scalar(value), limit)


def _scalar(value: JsonValue) -> str:
    """A number, true, false or null as JSON text."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show_items(
    value: Mapping[str, JsonValue] | Sequence[JsonValue], limit: int, depth: int
) -> str:
    """An array or object, with the number of its items where they do not all fit."""
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    if depth >= _MAX_DEPTH:
        return f"{opening}...{closing}"
    parts: list[str] = []
    left = limit
    for item in value.items() if isinstance(value, Mapping) else value:
        part = _show_item(item, max(left, 8), depth, isinstance(value, Mapping))
        left -= len(part) + 2
        if left < 0 and parts:
            return f"{opening}{', '.join(parts)}, ...{closing} ({len(value)} items)"
        parts.append(part)
    return f"{opening}{', '.join(parts)}{closing}"


def _show_item(item: object, limit: int, depth: int, named: bool) -> str:
    """One item of an array, or one `name: value` of an object."""
    if named and isinstance(item, tuple):
        name, inner = item
        return f"{_quoted(shorten(str(name), limit))}: {_show(inner, limit, depth + 1)}"
    return _show(item, limit, depth + 1)  # type: ignore[arg-type]


def _quoted(text: str) -> str:
    """`text` in quotes, as JSON, with printable characters kept."""
    return json.dumps(text, ensure_ascii=False)
