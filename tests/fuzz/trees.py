"""Changes to a JSON tree that keep most of it: what a parser of configs has to live with.

Objects are `Pairs`, so that a key may be given twice. All changes are made in place.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tests.fuzz.choose import Chooser, one_of
from tests.mutations.text import Pairs, Tree, json_text

Slot: TypeAlias = tuple[list[Tree], int]  # a container, and a position in it

STRANGE: tuple[Tree, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 16.0, 1e-6, 0.0, -0.0, 5e-324, 1e308),
    *(float("nan"), float("inf"), float("-inf"), 2**31, 2**53 + 1, 2**63, 2**64, -(2**63)),
    *(10**299, -(10**299), 10**300, "", "0", "16", "null", "\ud800", "\udfff\ud800", "a" * 3000),
    *("\x00", "\x1b[31m", "\u202e", "/", "~", "/~0~1", "http://user:secret@host/", "DFlash"),
    *("Qwen3DSparkModel", "DFlashDraftModel", "full_attention", "sliding_attention", "bfloat16"),
    *("Qwen3ForCausalLM", "LlamaForCausalLMEagle3", "qwen3", "yarn", "gated", "model.safetensors"),
)
_DEPTHS = (2, 5, 30, 99, 101, 300)
_LENGTHS = (2, 13, 300, 5000)
_LIMIT_VALUES = 6000


def load(data: bytes) -> Tree:
    """The tree of a JSON text; None when there is none. Keeps keys that are given twice."""
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"), object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return None


def dump(tree: Tree) -> bytes:
    """The text of a tree; a lone surrogate becomes an escape, which is JSON all the same."""
    try:
        return json.dumps(_plain(tree)).encode()
    except KeyError:
        return json_text(tree).encode("utf-8", "surrogatepass")


def mutate(tree: Tree, chooser: Chooser, pool: Sequence[tuple[str, Tree]]) -> Tree:
    """`tree` after one to four changes; `pool` are keys and values of other families."""
    tree = copy_of(tree)
    if _size(tree) > 2 * _LIMIT_VALUES:
        return Pairs([one_of(chooser, pool)])
    for _ in range(1 + chooser.below(4)):
        slots = list(_slots(tree))
        if not slots:
            return Pairs([one_of(chooser, pool)])
        _apply(tree, slots, chooser, pool)
    return tree


def copy_of(tree: Tree) -> Tree:
    """A deep copy; trees are too deep for nothing, but `copy.deepcopy` is slow."""
    if isinstance(tree, Pairs):
        return Pairs([(key, copy_of(item)) for key, item in tree])
    return [copy_of(item) for item in tree] if isinstance(tree, list) else tree


def get(slot: Slot) -> Tree:
    """The value in a slot."""
    items, at = slot
    return items[at][1] if isinstance(items, Pairs) else items[at]


def put(slot: Slot, value: Tree) -> None:
    """Change the value in a slot; an object's key stays."""
    items, at = slot
    items[at] = (items[at][0], value) if isinstance(items, Pairs) else value


def _plain(tree: Tree) -> Tree:
    """With dicts for objects. Raises KeyError where a key is given twice."""
    if isinstance(tree, Pairs):
        plain = {key: _plain(item) for key, item in tree}
        if len(plain) != len(tree):
            raise KeyError("given twice")
        return plain
    return [_plain(item) for item in tree] if isinstance(tree, list) else tree


def _slots(tree: Tree) -> Iterator[Slot]:
    stack: list[Tree] = [tree]
    while stack:
        items = stack.pop()
        for at in range(min(len(items), 200)):
            yield items, at
            value = get((items, at))
            if isinstance(value, list):
                stack.append(value)


def _apply(
    tree: Tree, slots: list[Slot], chooser: Chooser, pool: Sequence[tuple[str, Tree]]
) -> None:
    change = one_of(chooser, _CHANGES)
    slot = one_of(chooser, slots)
    if change is not None:
        change(slot, chooser, slots)
        return
    objects = [tree, *(get(s) for s in slots if isinstance(get(s), Pairs))]
    home = one_of(chooser, [items for items in objects if isinstance(items, Pairs)] or [Pairs()])
    key, value = one_of(chooser, pool)
    _set(home, key, copy_of(value))


def _set(home: Pairs, key: str, value: Tree) -> None:
    """Give an object's key a value, in the place that it has, or at the end."""
    at = next((i for i, (known, _) in enumerate(home) if known == key), len(home))
    home[at : at + 1] = [(key, value)]


def _delete(slot: Slot, _: Chooser, __: list[Slot]) -> None:
    del slot[0][slot[1]]


def _swap(slot: Slot, chooser: Chooser, slots: list[Slot]) -> None:
    other = one_of(chooser, slots)
    mine, theirs = get(slot), get(other)
    put(slot, copy_of(theirs))
    put(other, copy_of(mine))


def _retype(slot: Slot, chooser: Chooser, _: list[Slot]) -> None:
    put(slot, one_of(chooser, STRANGE))


def _wrap(slot: Slot, chooser: Chooser, _: list[Slot]) -> None:
    kind = chooser.below(4)
    value = get(slot)
    if kind == 0:
        put(slot, json_text(value))
    elif kind == 1:
        put(slot, Pairs([("x", value)]))
    else:
        put(slot, [value])


def _deepen(slot: Slot, chooser: Chooser, _: list[Slot]) -> None:
    value = get(slot)
    for _level in range(one_of(chooser, _DEPTHS)):
        value = [value]
    put(slot, value)


def _step(slot: Slot, chooser: Chooser, _: list[Slot]) -> None:
    value = get(slot)
    if isinstance(value, bool):
        put(slot, not value)
    elif isinstance(value, int):
        steps = (value + 1, value - 1, -value, value * 2, float(value % 10**9), value * 2**32)
        put(slot, one_of(chooser, steps))
    elif isinstance(value, float):
        put(slot, one_of(chooser, (value + 1, -value, value * 10, 1.0)))
    elif isinstance(value, str):
        put(slot, value[: chooser.below(len(value) + 1)] + one_of(chooser, ("", "x", "\ud800")))


def _twice(slot: Slot, _: Chooser, __: list[Slot]) -> None:
    items, at = slot
    value = copy_of(get((items, at)))
    items.append((items[at][0], value) if isinstance(items, Pairs) else value)


def _lengthen(slot: Slot, chooser: Chooser, _: list[Slot]) -> None:
    value = get(slot)
    times = min(one_of(chooser, _LENGTHS), _LIMIT_VALUES // _size(value))
    if isinstance(value, str):
        put(slot, (value[:20] or "a") * times)
    elif isinstance(value, list) and not isinstance(value, Pairs):
        put(slot, copy_of((value or [1]) * times))
    else:
        put(slot, copy_of([value] * times))


def _size(tree: Tree) -> int:
    """How many values a tree has, itself included; a long text counts as many."""
    if isinstance(tree, str):
        return 1 + len(tree) // 20
    if not isinstance(tree, list):
        return 1
    items = (item[1] for item in tree) if isinstance(tree, Pairs) else tree
    return 1 + sum(map(_size, items))


def _rename(slot: Slot, chooser: Chooser, slots: list[Slot]) -> None:
    items, at = slot
    if isinstance(items, Pairs):
        keys = [s[0][s[1]][0] for s in slots if isinstance(s[0], Pairs)]
        strange = (items[at][0] + "x", items[at][0][:-1], "", "\ud800", "a/b~c", "..", "k" * 500)
        items[at] = (one_of(chooser, (*keys, *strange)), items[at][1])


def _move(slot: Slot, chooser: Chooser, slots: list[Slot]) -> None:
    items, at = slot
    homes = [s[0] for s in slots if isinstance(s[0], Pairs) and s[0] is not items]
    if isinstance(items, Pairs) and homes:
        pair = items.pop(at)
        if not _holds(pair[1], home := one_of(chooser, homes)):
            home.append(pair)


def _holds(tree: Tree, wanted: list[Tree]) -> bool:
    return tree is wanted or (
        isinstance(tree, list)
        and any(_holds(item[1] if isinstance(tree, Pairs) else item, wanted) for item in tree)
    )


_Change: TypeAlias = Callable[[Slot, Chooser, list[Slot]], None]
# None stands for splicing in a key of another family, which is the most telling change.
_CHANGES: tuple[_Change | None, ...] = (
    *(None, None, None, None, _delete, _delete, _swap, _retype, _retype, _retype, _wrap),
    *(_deepen, _step, _step, _step, _twice, _lengthen, _rename, _rename, _move, _move),
)
