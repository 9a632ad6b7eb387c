"""Changes to an input: mostly to one of its JSON trees, sometimes to its text or its bytes."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tests.fuzz.blob import Blob, unpacked
from tests.fuzz.choose import Chooser, one_of
from tests.fuzz.trees import dump, load, mutate
from tests.mutations.text import Pairs, Tree

Bytes: TypeAlias = Callable[[bytes], bytes]

_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00", b" " * 50, b"\n", b"//\n", b"[")
_LIMIT_BYTES = 2**20


class Material(NamedTuple):
    """What a mutator draws on: the inputs it began with, and each key and value in them."""

    blobs: tuple[Blob, ...]
    pool: tuple[tuple[str, Tree], ...]


def material(blobs: Sequence[Blob]) -> Material:
    """The keys and values of every part of `blobs`, each pair once."""
    found: dict[tuple[str, bytes], tuple[str, Tree]] = {}
    for blob in blobs:
        for part in (blob.draft, blob.target):
            for key, value in _pairs(load(part)):
                found[key, dump(value)] = (key, value)
    return Material(tuple(blobs), tuple(found.values()))


def mutated(data: bytes, chooser: Chooser, known: Material, other: Bytes | None = None) -> bytes:
    """Another input. `other` changes bytes without any regard to structure."""
    blob = unpacked(data)
    part = one_of(chooser, ("draft",) * 8 + Blob._fields)
    if not getattr(blob, part) and part != "draft":
        return blob._replace(**_borrowed(part, chooser, known)).packed()
    changed = _part(getattr(blob, part), chooser, known, other)
    return blob._replace(**{part: changed[:_LIMIT_BYTES]}).packed()


def _borrowed(part: str, chooser: Chooser, known: Material) -> Mapping[str, bytes]:
    return {part: getattr(one_of(chooser, known.blobs), part)}


def _part(data: bytes, chooser: Chooser, known: Material, other: Bytes | None) -> bytes:
    way = chooser.below(40)
    if way == 0:
        return one_of(chooser, known.blobs).draft
    if way == 1:
        return _text(data, chooser)
    if way == 2 and other is not None:
        return other(data)
    tree = load(data)
    if not isinstance(tree, list):
        tree = load(one_of(chooser, known.blobs).draft)
    try:
        return dump(mutate(tree if tree is not None else Pairs(), chooser, known.pool))
    except RecursionError:  # deeper than Python's own JSON writer goes
        return _text(data, chooser)


def _text(data: bytes, chooser: Chooser) -> bytes:
    way, at = chooser.below(6), chooser.below(len(data) + 1)
    if way == 0:
        return one_of(chooser, _MARKS) + data
    if way == 1:
        return data[:at]
    if way == 2:
        return data[:at] + one_of(chooser, _MARKS) + data[at:]
    if way == 3:
        return data[:at] + bytes([chooser.below(256)]) + data[at + 1 :]
    if way == 4:
        return data.replace(b"1", b"1" * one_of(chooser, (4, 299, 301, 5000)), 1)
    return b'{"a":' * one_of(chooser, (50, 102, 2000)) + data


def _pairs(tree: Tree) -> list[tuple[str, Tree]]:
    found: list[tuple[str, Tree]] = []
    if isinstance(tree, Pairs):
        for key, value in tree:
            found += [(key, value), *_pairs(value)]
    return found
