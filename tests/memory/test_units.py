"""Sizes as text."""

import pytest

from server.memory.units import apart, bytes_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.00 KiB"),
        (157_286_400, "150.00 MiB"),
        (16_381_470_720, "15.26 GiB"),
        (2**30 - 2**13, "1023.99 MiB"),
    ],
)
def test_bytes_are_rounded_to_two_decimals(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_sizes_that_would_look_equal_are_given_in_full() -> None:
    assert apart(6_042_157_056, 6_042_157_055) == ("6042157056 bytes", "6042157055 bytes")
    assert apart(6_042_157_056, 6_042_157_056) == ("5.63 GiB", "5.63 GiB")
    assert apart(2**30, 2**31) == ("1.00 GiB", "2.00 GiB")
