"""One wrong field at a time: every key of every level, and both ends of every list."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

from tests.mutations.text import Pairs, Tree, json_text

Path: TypeAlias = tuple[str | int, ...]
NESTED = "dflash_config"


class Mutant(NamedTuple):
    """A config.json with one fault: the place of the field, the mutation, the file's text.

    `inside` are the keys of the object that stood at the place, if one did.
    """

    path: Path
    mutation: str
    text: str
    inside: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The field as tables show it: dflash_config.target_layer_ids[-1]."""
        return field_name(self.path)

    @property
    def keys(self) -> tuple[str, ...]:
        """What a refusal has to name: the last key on the way, or one inside that is lost."""
        last = next(part for part in reversed(self.path) if isinstance(part, str))
        return (last, *self.inside)


def field_name(path: Path) -> str:
    """A place as tables show it."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")


def mutants(draft: Mapping[str, Any]) -> Iterator[Mutant]:
    """Every mutant of `draft` whose text says something else than the draft's own."""
    same = json_text(dict(draft))
    for path in places(draft):
        value = _at(draft, path)
        inside = tuple(value) if isinstance(value, Mapping) else ()
        for mutation, mutate in MUTATIONS.items():
            raw = deepcopy(dict(draft))
            changed = mutate(raw, path)
            if changed is not None and (text := json_text(changed)) != same:
                yield Mutant(path, mutation, text, inside)


def places(value: Tree, path: Path = ()) -> Iterator[Path]:
    """The place of each key at each level, and of the first and last item of each list."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (*path, key)
            yield from places(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from ((*path, end) for end in dict.fromkeys((0, -1 if len(value) > 1 else 0)))


_Mutate: TypeAlias = Callable[[dict[str, Any], Path], Tree | None]


def _at(raw: Tree, path: Path) -> Tree:
    for part in path:
        raw = raw[part]
    return raw


def _delete(raw: dict[str, Any], path: Path) -> Tree:
    del _at(raw, path[:-1])[path[-1]]
    return raw


def _put(change: Callable[[Any], Any]) -> _Mutate:
    """Put `change(value)` in the value's place; a change that gives `_SKIP` does not apply."""

    def mutate(raw: dict[str, Any], path: Path) -> Tree | None:
        value = change(_at(raw, path))
        if value is _SKIP:
            return None
        _at(raw, path[:-1])[path[-1]] = value
        return raw

    return mutate


def _move(raw: dict[str, Any], path: Path) -> Tree | None:
    """To the top level, or from there into dflash_config."""
    if isinstance(path[-1], int) or path == (NESTED,):
        return None
    value = _at(raw, path)
    _delete(raw, path)
    home = raw if len(path) > 1 else raw.setdefault(NESTED, {})
    home[path[-1]] = value
    return raw


def _twice(other: bool) -> _Mutate:
    """Give a key twice in the text; with `other` the second time with another value."""

    def mutate(raw: dict[str, Any], path: Path) -> Tree | None:
        if isinstance(path[-1], int):
            return None
        value = _at(raw, path)
        again = _other(value) if other else value
        pairs = Pairs([*_at(raw, path[:-1]).items(), (path[-1], again)])
        return pairs if len(path) == 1 else _put(lambda _: pairs)(raw, path[:-1])

    return mutate


def _repeat(raw: dict[str, Any], path: Path) -> Tree | None:
    """Give a list's item twice in a row."""
    if not isinstance(path[-1], int):
        return None
    items = _at(raw, path[:-1])
    where = path[-1] % len(items)
    items.insert(where, items[where])
    return raw


_SKIP = object()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _other(value: object) -> object:
    """A value of the same type where there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return _letter(value) if isinstance(value, str) else "other"


def _string(value: object) -> object:
    if isinstance(value, str):
        return _SKIP
    return json_text(value)


def _number(value: object) -> object:
    """The nearest number of another type: 16.0 for 16, 7 for 7.0, 1 for true."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return float(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else _SKIP
    return 1


def _true(value: object) -> object:
    return _SKIP if isinstance(value, bool) else True


def _list(value: object) -> object:
    return _SKIP if isinstance(value, list) else [value]


def _scalar(value: object) -> object:
    """The first item of a list, the first value of an object."""
    if isinstance(value, list) and value:
        return value[0]
    return next(iter(value.values())) if isinstance(value, dict) and value else _SKIP


def _added(step: int) -> Callable[[Any], Any]:
    return lambda value: value + step if _is_number(value) else _SKIP


def _tenfold(value: object) -> object:
    return value * 10 if isinstance(value, float) else _SKIP


def _letter(value: object) -> object:
    """Another last character: qwen4 for qwen3, bfloat17 for bfloat16."""
    return value[:-1] + chr(ord(value[-1]) + 1) if isinstance(value, str) and value else _SKIP


def _flip(value: object) -> object:
    return not value if isinstance(value, bool) else _SKIP


MUTATIONS: Mapping[str, _Mutate] = {
    "delete": _delete,
    "null": _put(lambda _: None),
    "string": _put(_string),
    "number": _put(_number),
    "true": _put(_true),
    "list": _put(_list),
    "scalar": _put(_scalar),
    "move": _move,
    "twice, same": _twice(other=False),
    "twice, other": _twice(other=True),
    "repeat": _repeat,
    "+1": _put(_added(1)),
    "-1": _put(_added(-1)),
    "x10": _put(_tenfold),
    "letter": _put(_letter),
    "flip": _put(_flip),
}
