"""JSON text that `json.dumps` does not write: objects that give a key twice."""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

Tree: TypeAlias = Any  # a JSON value, in which `Pairs` may stand for an object


class Pairs(list[tuple[str, Tree]]):
    """An object as its pairs in order; a key may occur more than once."""


def json_text(value: Tree) -> str:
    """`value` as JSON text. NaN, infinity and lone surrogates are written as Python has them."""
    if isinstance(value, Pairs):
        return _object(value)
    if isinstance(value, dict):
        return _object(value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _object(pairs: Iterable[tuple[str, Tree]]) -> str:
    told = (f"{json.dumps(key, ensure_ascii=False)}: {json_text(item)}" for key, item in pairs)
    return f"{{{', '.join(told)}}}"
