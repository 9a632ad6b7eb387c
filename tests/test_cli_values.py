"""Sizes, fractions and counts are read exactly, or not at all."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.cli_values import (
    BadValue,
    Value,
    read_bytes,
    read_count,
    read_path,
    read_positive_bytes,
    read_switch,
    read_utilization,
)

# Powers written out by hand, so that the table is not checked against itself.
UNITS = [
    ("", 1),
    ("B", 1),
    ("KiB", 1_024),
    ("MiB", 1_048_576),
    ("GiB", 1_073_741_824),
    ("TiB", 1_099_511_627_776),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
]


@pytest.mark.parametrize(("unit", "unit_bytes"), UNITS)
@settings(deadline=None)
@given(number=st.integers(0, 4_000_000))
def test_a_size_is_its_number_of_units(unit: str, unit_bytes: int, number: int) -> None:
    assert read_bytes(f"{number}{unit}") == number * unit_bytes


@settings(deadline=None)
@given(eighths=st.integers(0, 2**20))
def test_a_fraction_of_a_unit_is_exact_where_it_is_whole(eighths: int) -> None:
    decimal = Decimal(eighths) / 8
    assert read_bytes(f"{decimal:f}KiB") == eighths * 128


@settings(deadline=None)
@given(whole=st.integers(0, 999), digits=st.text("0123456789", min_size=11, max_size=20))
def test_a_size_is_never_rounded(whole: int, digits: str) -> None:
    text = f"{whole}.{digits}GiB"
    exact = Decimal(f"{whole}.{digits}") * 1_073_741_824
    if exact == exact.to_integral_value():
        assert read_bytes(text) == int(exact)
    else:
        with pytest.raises(BadValue, match="not a whole number of bytes"):
            read_bytes(text)


def test_a_size_that_a_float_would_round_is_kept() -> None:
    assert read_bytes("9007199254740993") == 9_007_199_254_740_993
    assert read_bytes("9223372036854775807") == 2**63 - 1


UNCLEAR = (
    *("10G", "10g", "10gb", "10 GiB", "1e9", "-1", "+1", "0x10", "1_000", "", "GiB", "1.5"),
    *("1.GiB", ".5GiB", "nan", "inf", "\u0661", "9223372036854775808", "1" * 5000, "1B\n"),
)


@pytest.mark.parametrize("text", UNCLEAR)
def test_a_size_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        read_bytes(text)


def test_zero_bytes_are_a_margin_but_not_a_pool() -> None:
    assert read_bytes("0") == 0
    assert read_positive_bytes("1") == 1
    with pytest.raises(BadValue, match="not above 0"):
        read_positive_bytes("0GiB")


def test_utilization_does_not_pass_through_a_float() -> None:
    assert floor(read_utilization("0.29") * 104_857_600) == 30_408_704
    assert int(0.29 * 104_857_600) == 30_408_703, "what a float would have made of it"


@settings(deadline=None)
@given(numerator=st.integers(1, 10**6), total_bytes=st.integers(1, 2**45))
def test_utilization_is_exact_for_every_device(numerator: int, total_bytes: int) -> None:
    text = f"{numerator // 10**6}.{numerator % 10**6:06d}"
    assert floor(read_utilization(text) * total_bytes) == numerator * total_bytes // 10**6


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", Fraction(1)), ("1.0", Fraction(1)), (".5", Fraction(1, 2)), ("0.92", Fraction(23, 25))],
)
def test_utilization_takes_decimals_up_to_one(text: str, value: Fraction) -> None:
    assert read_utilization(text) == value


@pytest.mark.parametrize(
    "text",
    ["0", "0.0", "1.0000001", "90", "90%", "1/2", "9e-1", "-0.5", ".", "", "nan", " 0.9", "0,9"],
)
def test_utilization_outside_its_range_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        read_utilization(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "32k", "1e3", "2147483648", "1_0", "\uff11"])
def test_a_count_that_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        read_count(text)


def test_a_count_goes_from_one_to_the_largest() -> None:
    assert (read_count("1"), read_count("2147483647")) == (1, 2_147_483_647)
    assert read_count("007") == 7


@pytest.mark.parametrize(("text", "value"), [("YES", True), ("on", True), ("0", False)])
def test_a_switch_reads_yes_and_no(text: str, value: bool) -> None:
    assert read_switch(text) is value


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_text_makes_a_reader_fail_otherwise(text: str) -> None:
    readers: tuple[Callable[[str], Value], ...] = (
        read_bytes,
        read_count,
        read_path,
        read_switch,
        read_utilization,
    )
    for reader in readers:
        with suppress(BadValue):
            reader(text)
