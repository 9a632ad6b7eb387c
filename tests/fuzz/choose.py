"""Where a mutation takes its decisions from: a generator of random numbers, or hypothesis."""

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Chooser(Protocol):
    """A source of whole numbers."""

    def below(self, limit: int) -> int:
        """A number from 0 up to, but not including, `limit`; `limit` is at least 1."""


class Dice:
    """Decisions of a random generator."""

    def __init__(self, seed: int) -> None:
        """The same seed gives the same decisions."""
        self._random = Random(seed)

    def below(self, limit: int) -> int:
        """See `Chooser`."""
        return int(self._random.random() * limit)


def one_of(chooser: Chooser, items: Sequence[T]) -> T:
    """One of `items`, which is not empty."""
    return items[chooser.below(len(items))]
