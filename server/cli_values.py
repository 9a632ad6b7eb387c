"""Reads the text of one flag or environment variable into its value. Exact: no float is made.

Each `read_*` takes the text and returns the value, or raises `BadValue`.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from server.options import MAX_REQUESTS, fraction_text

Value: TypeAlias = str | int | bool | Fraction | Path
Reader: TypeAlias = Callable[[str], Value]

MAX_COUNT = 2**31 - 1
MAX_PORT = 2**16 - 1
MAX_BYTES = 2**63 - 1

UNIT_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "": 1,
        "B": 1,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
        "kB": 10**3,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
    }
)

_SIZE = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?([A-Za-z]{0,8})")
_DECIMAL = re.compile(r"(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")
_COUNT = re.compile(r"[0-9]{1,30}")
_FAMILY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DEVICE = re.compile(r"auto|cpu|cuda|cuda:(?:0|[1-9][0-9]{0,2})")

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class BadValue(ValueError):
    """A text that is not a value of its kind; the message goes on after "--flag is TEXT, ".

    `spelled` maps each text that would be one, where they can be listed, to its value.
    """

    def __init__(self, message: str, spelled: Mapping[str, str] | None = None) -> None:
        """Say what is wrong with it."""
        super().__init__(message)
        self.spelled = spelled or {}


def read_count(text: str) -> int:
    """A whole number from 1 up, in decimal digits."""
    if not _COUNT.fullmatch(text):
        raise BadValue("not a whole number from 1 up, in digits")
    if not 1 <= int(text) <= MAX_COUNT:
        raise BadValue(f"not from 1 to {MAX_COUNT}")
    return int(text)


def read_requests(text: str) -> int:
    """How many requests one step may have."""
    if (count := read_count(text)) > MAX_REQUESTS:
        raise BadValue(f"not from 1 to {MAX_REQUESTS}")
    return count


def read_port(text: str) -> int:
    """The number of a TCP port, or 0: any that is free."""
    if not _COUNT.fullmatch(text) or int(text) > MAX_PORT:
        raise BadValue(f"not a whole number from 0 to {MAX_PORT}")
    return int(text)


def read_length(text: str) -> int | str:
    """A number of tokens, or "auto": the longest length that fits."""
    return text if text == "auto" else read_count(text)


def read_bytes(text: str) -> int:
    """A size in bytes: digits, or a number with KiB MiB GiB TiB or kB MB GB TB. Exact."""
    matched = _SIZE.fullmatch(text)
    if matched is None:
        raise BadValue("not a size such as 10737418240, 10GiB or 512MiB")
    whole, part, unit = matched.groups()
    if unit not in UNIT_BYTES:
        message = f"and {unit} is not one of B KiB MiB GiB TiB kB MB GB TB"
        raise BadValue(message, _in_our_units(text, unit))
    size = Fraction(f"{whole}.{part or 0}") * UNIT_BYTES[unit]
    if size.denominator != 1:
        raise BadValue("not a whole number of bytes")
    if size > MAX_BYTES:
        raise BadValue(f"more than {MAX_BYTES} bytes")
    return int(size)


def _in_our_units(text: str, unit: str) -> Mapping[str, str]:
    """What `text` is in a unit of ours: G and Gi are GiB, as other tools have them."""
    bare = unit.lower().removesuffix("b").removesuffix("i")
    tail = "B" if unit.lower() == f"{bare}b" else "iB"
    ours = {known.lower(): known for known in UNIT_BYTES}.get(f"{bare}{tail}".lower())
    return {} if not bare or ours is None else {text.lower(): text.removesuffix(unit) + ours}


def read_positive_bytes(text: str) -> int:
    """A size of at least one byte."""
    size_bytes = read_bytes(text)
    if size_bytes == 0:
        raise BadValue("not above 0")
    return size_bytes


def read_utilization(text: str) -> Fraction:
    """A decimal fraction above 0 and up to 1, kept exactly."""
    if not _DECIMAL.fullmatch(text):
        raise BadValue("not a decimal fraction such as 0.9", _of_percent(text))
    value = Fraction(f"0{text}" if text.startswith(".") else text.removesuffix("."))
    if not 0 < value <= 1:
        raise BadValue("not above 0 and up to 1", _of_percent(text))
    return value


def _of_percent(text: str) -> Mapping[str, str]:
    """The fraction that a whole number of hundredths is; of one digit only where it says so."""
    digits = text.removesuffix("%")
    least = 10 if digits == text else 1
    if not (_COUNT.fullmatch(digits) and least <= int(digits) <= 100):
        return {}
    return {text: fraction_text(Fraction(int(digits), 100))}


def read_path(text: str) -> Path:
    """A path of the file system."""
    if "\0" in text:
        raise BadValue("not a path, because it holds a NUL character")
    if text == "-":
        raise BadValue("not a path; standard output is what --output-format is for")
    return Path(text)


def read_text(text: str) -> str:
    """A name or a path, as it was typed; the boot finds out what it names."""
    return text


def read_switch(text: str) -> bool:
    """A yes or no, as an environment variable spells it."""
    folded = text.lower()
    if folded not in _TRUE + _FALSE:
        raise BadValue(f"not one of {', '.join(_TRUE + _FALSE)}")
    return folded in _TRUE


def read_device(text: str) -> str:
    """auto, cpu, cuda or cuda:N."""
    if not _DEVICE.fullmatch(text):
        raise BadValue("not one of auto, cpu, cuda, cuda:N")
    return text


def read_family(text: str) -> str:
    """auto or the name of a drafter family; the draft's own file decides whether it is right."""
    name = text.lower().replace("_", "-")
    if not _FAMILY.fullmatch(name):
        raise BadValue("not auto or the name of a drafter family")
    return name


def choice(names: tuple[str, ...], habits: Mapping[str, str] | None = None) -> Reader:
    """A reader of one of `names`; `habits` maps other engines' spellings to ours."""
    spelled = dict(habits or {}) | {name: name for name in names}

    def read(text: str) -> str:
        if text not in spelled:
            raise BadValue(f"not one of {', '.join(names)}", spelled)
        return spelled[text]

    return read
