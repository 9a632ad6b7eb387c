"""The table of GPUs: smallest first, each a little below the size in its name."""

from server.cards import CARDS

GIB = 2**30


def test_the_smallest_card_comes_first() -> None:
    assert list(CARDS.values()) == sorted(CARDS.values())


def test_cuda_shows_less_than_the_name_says_and_not_much_less() -> None:
    for name, total_bytes in CARDS.items():
        named_bytes = int(name.rsplit("-", 1)[1].removesuffix("g")) * GIB
        assert 0.9 * named_bytes < total_bytes < named_bytes, name
