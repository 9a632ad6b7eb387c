"""Tensors as a config implies them: names, and shapes worked out from the config's own fields.

Each drafter family states its tensors in its module with `expect`; the shape is computed from
the words that messages show, so that the two cannot disagree. Linear weights are [out, in].
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from server.config.records import Backbone

FC_COLUMNS = "len(target_layer_ids)*target_hidden_size"
# What an absent field is, by the definition of the record.
_FALLBACK = {"target_hidden_size": "hidden_size", "draft_vocab_size": "vocab_size"}


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """A tensor that a checkpoint of this config may hold.

    `terms` say in config fields what each dimension of `shape` is. `needed`: its absence is a
    fault. `loaded`: the server reads it (others are allowed and stay on disk). `dtypes` are the
    format's names of the only types that it may have; empty for any floating point type.
    `because`: the config's field that chose these terms, where one did.
    """

    name: str
    shape: tuple[int, ...]
    terms: tuple[str, ...]
    needed: bool = True
    loaded: bool = True
    dtypes: tuple[str, ...] = ()
    because: str = ""


class Tensors(NamedTuple):
    """The tensors of one drafter family.

    `expected` takes the record of that family, and reads its fields `needs`. `aliases`: beginnings
    of names that some exporters write, each with the one that `expected` has. `marks` are parts of
    names that no other family has; a file that holds one under another family's name is told so.
    """

    needs: tuple[str, ...]
    expected: Callable[[Any], Iterable[ExpectedTensor]]
    aliases: tuple[tuple[str, str], ...] = ()
    marks: tuple[str, ...] = ()


def expect(
    record: Backbone, name: str, *terms: str, needed: bool = True, loaded: bool = True
) -> ExpectedTensor:
    """A tensor whose dimensions are `terms`, such as "2*hidden_size" or "hidden_size+rank"."""
    return ExpectedTensor(name, tuple(_size(record, term) for term in terms), terms, needed, loaded)


def _size(record: Backbone, term: str) -> int:
    """`term` in numbers: a sum of products, of which a factor may be divided by another."""
    return sum(_product(record, part) for part in term.split("+"))


def _product(record: Backbone, product: str) -> int:
    above, *below = product.split("/")
    size = prod(_factor(record, factor) for factor in above.split("*"))
    return size // prod(_factor(record, factor) for factor in below)


def _factor(record: Backbone, factor: str) -> int:
    if factor.isdigit():
        return int(factor)
    if factor.startswith("len("):
        return len(getattr(record, factor[4:-1]))
    size: int | None = getattr(record, factor)
    return getattr(record, _FALLBACK[factor]) if size is None else size
