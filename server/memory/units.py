"""Bytes and fractions as text for messages. Exact, without floats."""

from fractions import Fraction

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def bytes_text(size_bytes: int) -> str:
    """Two decimals in the largest unit that gives at least 1, e.g. "15.26 GiB"."""
    for unit, unit_bytes in _UNITS:
        if size_bytes >= unit_bytes:
            hundredths = (size_bytes * 200 + unit_bytes) // (2 * unit_bytes)
            return f"{hundredths // 100}.{hundredths % 100:02d} {unit}"
    return "1 byte" if size_bytes == 1 else f"{size_bytes} bytes"


def apart(first_bytes: int, second_bytes: int) -> tuple[str, str]:
    """Two sizes as text, in full where the rounded ones would look equal.

    A message "30.3 against 30.3" tells nothing (vllm-project/vllm pull request 33358).
    """
    first, second = bytes_text(first_bytes), bytes_text(second_bytes)
    if first_bytes != second_bytes and first == second:
        return f"{first_bytes} bytes", f"{second_bytes} bytes"
    return first, second


def fraction_text(value: Fraction) -> str:
    """A decimal fraction exactly ("0.875"), any other one as it is ("1/3")."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
        if digits > 12:
            return str(value)
    whole = str((value * 10**digits).numerator).rjust(digits + 1, "0")
    return f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole
