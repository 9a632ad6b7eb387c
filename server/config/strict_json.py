"""Strict JSON from untrusted files: no input may raise, hang or take much memory.

Python's `json` keeps the last of two equal keys and turns 1e999 into infinity; both are
reported here with their JSON pointers. Limits are far above any real file.
"""

import errno
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from server.config.rules import finding
from server.config.values import Source, pointer, shorten
from server.findings import Finding, JsonValue, Location, Outcome, outcome_of, skipped
from server.limits import pass_on_limit

JsonObject: TypeAlias = dict[str, JsonValue]

LIMIT_BYTES = 16 * 2**20
LIMIT_VALUES = 1_000_000  # the header of a sharded mixture of experts has half of that
_CONFIG_LIMIT_VALUES = 100_000
_LIMIT_DEPTH = 100
_LIMIT_FAULTS = 20
_LIMIT_DIGITS = 300  # a longer integer is beyond every float as well
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_NOT_STRUCTURE = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_CHUNK_BYTES = 2**20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


class FaultKind(StrEnum):
    """What is wrong with a file; a caller maps each kind to its own rule id."""

    NOT_FOUND = "SD101"
    UNREADABLE = "SD102"
    INVALID = "SD103"
    DUPLICATE = "SD104"
    NON_FINITE = "SD106"


class JsonFault(NamedTuple):
    """One fault. `message` is a clause; `pointer` and `value` are None for the whole file."""

    kind: FaultKind
    message: str
    pointer: str | None = None
    value: JsonValue = None


_FATAL = (FaultKind.NOT_FOUND, FaultKind.UNREADABLE, FaultKind.INVALID)


class _Stop(Exception):
    """Reading cannot go on; the fault says why."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.fault = JsonFault(kind, message)


def read_object(path: Path, role: str) -> tuple[JsonObject | None, Outcome]:
    """Read the JSON object in file `path`. Never raises.

    The object is None when there is nothing to read on with. With duplicate keys or non-finite
    numbers it is returned together with the findings, so that all faults are told in one pass.
    """
    value, faults = load_object(path, limit_values=_CONFIG_LIMIT_VALUES)
    return value, _outcome(faults, Source(role, str(path)))


def load_object(
    path: Path, limit_bytes: int = LIMIT_BYTES, limit_values: int = LIMIT_VALUES
) -> tuple[JsonObject | None, tuple[JsonFault, ...]]:
    """Read the JSON object in file `path`; faults are plain data. Never raises."""
    data, faults = read_bytes(path, limit_bytes)
    return (None, faults) if data is None else parse_bytes(data, limit_values)


def read_bytes(path: Path, limit_bytes: int) -> tuple[bytes | None, tuple[JsonFault, ...]]:
    """The bytes of a regular file of at most `limit_bytes`, or the fault. Never raises."""
    try:
        return _read_bytes(path, limit_bytes), ()
    except _Stop as stop:
        return None, (stop.fault,)


def parse_bytes(
    data: bytes, limit_values: int = LIMIT_VALUES
) -> tuple[JsonObject | None, tuple[JsonFault, ...]]:
    """Parse a JSON object; faults are plain data, for callers with rule ids of their own."""
    seen = _Seen(long_numbers=b"0" * _LIMIT_DIGITS in data.translate(_DIGITS_ALIKE))
    try:
        value = _loads(_text(data, limit_values), seen)
        # The walk costs more than the parser; hardly a file needs it.
        needed = seen.twice or seen.non_finite or _may_nest_deeper(data)
        faults = _first(_walk(value, seen.twice)) if needed else ()
    except _Stop as stop:
        return None, (stop.fault,)
    return value, faults


def _read_bytes(path: Path, limit_bytes: int) -> bytes:
    try:
        handle = os.open(path, _FLAGS)
    except ValueError as error:
        raise _Stop(FaultKind.NOT_FOUND, f"not a possible file name: {error}") from None
    except OSError as error:
        pass_on_limit(error)
        kind = FaultKind.NOT_FOUND if error.errno in _NOT_FOUND else FaultKind.UNREADABLE
        raise _Stop(kind, f"cannot be opened: {error.strerror}") from None
    try:
        _require_regular(os.fstat(handle), limit_bytes)
        return _read_all(handle, limit_bytes)
    except OSError as error:
        raise _Stop(FaultKind.UNREADABLE, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _require_regular(status: os.stat_result, limit_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = next((name for test, name in _KINDS if test(status.st_mode)), "not a file")
        raise _Stop(FaultKind.UNREADABLE, f"is {what}, a regular file is needed")
    if status.st_size > limit_bytes:
        raise _Stop(FaultKind.INVALID, _too_large(f"{status.st_size}", limit_bytes))


def _read_all(handle: int, limit_bytes: int) -> bytes:
    # The size from fstat is not trusted: files under /proc say 0, others may grow.
    chunks: list[bytes] = []
    total = 0
    while chunk := os.read(handle, _CHUNK_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        if total > limit_bytes:
            raise _Stop(FaultKind.INVALID, _too_large(f"more than {limit_bytes}", limit_bytes))
    return b"".join(chunks)


def _too_large(found: str, limit_bytes: int) -> str:
    return f"holds {found} bytes, at most {limit_bytes} are read"


def _text(data: bytes, limit_values: int) -> str:
    if not data.strip():
        raise _Stop(FaultKind.INVALID, f"is empty ({len(data)} bytes)")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        mark = data[:2].hex() if data[0] != 0xEF else data[:3].hex()
        raise _Stop(FaultKind.INVALID, f"starts with a byte order mark ({mark}), not with {{")
    values = sum(map(data.count, (b",", b"{", b"[")))
    if values > limit_values:
        raise _Stop(FaultKind.INVALID, f"holds about {values} values, at most {limit_values}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise _Stop(FaultKind.INVALID, f"is not UTF-8: {where}, {error.reason}") from None


class _Seen:
    """What the parser came across that `_walk` has to find again and place.

    `twice`: objects that give a key more than once, by id, each with these keys.
    """

    def __init__(self, long_numbers: bool) -> None:
        self.parse_int = _integer if long_numbers else None
        self.twice: dict[int, tuple[JsonObject, list[str]]] = {}
        self.non_finite = False

    def collect(self, pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        found = dict(pairs)
        if len(found) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            # The object is kept beside its keys, so that its id cannot be taken again.
            self.twice[id(found)] = found, [key for key, n in counts.items() if n > 1]
        return found

    def parse_float(self, text: str) -> float:
        value = float(text)
        self.non_finite |= not math.isfinite(value)
        return value


def _loads(text: str, seen: _Seen) -> JsonObject:
    try:
        value = json.loads(
            text,
            object_pairs_hook=seen.collect,
            parse_int=seen.parse_int,
            parse_float=seen.parse_float,
            parse_constant=seen.parse_float,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        found = shorten(text[error.pos : error.pos + 20]) if error.pos < len(text) else "the end"
        raise _Stop(FaultKind.INVALID, f"{where}: {error.msg}, found {found}") from None
    except RecursionError:
        raise _Stop(FaultKind.INVALID, f"nests deeper than {_LIMIT_DEPTH} levels") from None
    if not isinstance(value, dict):
        raise _Stop(FaultKind.INVALID, f"top level is {shorten(value)}, an object is needed")
    return value


def _integer(text: str) -> int:
    if len(text) > _LIMIT_DIGITS:
        what = f"{text[:20]}... has {len(text)} digits, at most {_LIMIT_DIGITS} are read"
        raise _Stop(FaultKind.INVALID, f"integer {what}")
    return int(text)


def _may_nest_deeper(data: bytes) -> bool:
    """Whether brackets nest deeper than the limit. True also where a text has a bracket or quote.

    A closing bracket in a text would hide a level from the count.
    """
    brackets = data.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    if b'\\"' in data or b'"' in brackets:
        return True
    for _ in range(_LIMIT_DEPTH + 1):
        if not brackets:
            return False
        inner, brackets = brackets, brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) == len(inner):
            return True
    return True


_Path: TypeAlias = "tuple[_Path, str | int] | None"


def _walk(root: JsonObject, twice: dict[int, tuple[JsonObject, list[str]]]) -> Iterator[JsonFault]:
    """Visit every container without recursion; yield duplicate keys and non-finite numbers."""
    stack: list[tuple[JsonValue, _Path, int]] = [(root, None, 0)]
    while stack:
        value, path, depth = stack.pop()
        if depth > _LIMIT_DEPTH:
            raise _Stop(FaultKind.INVALID, f"nests deeper than {_LIMIT_DEPTH} levels")
        for name in twice.get(id(value), (None, ()))[1]:
            where = _pointer((path, name))
            yield JsonFault(FaultKind.DUPLICATE, f"{where} is given more than once", where)
        items = value.items() if isinstance(value, dict) else enumerate(_as_list(value))
        for key, item in items:
            if type(item) is float:
                if not math.isfinite(item):
                    where = _pointer((path, key))
                    yield JsonFault(FaultKind.NON_FINITE, f"{where} is {item}", where, item)
            elif type(item) is dict or type(item) is list:
                stack.append((item, (path, key), depth + 1))


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _pointer(path: _Path) -> str:
    keys: list[str | int] = []
    while path is not None:
        keys.append(path[1])
        path = path[0]
    return pointer(*reversed(keys))


def _first(faults: Iterator[JsonFault]) -> tuple[JsonFault, ...]:
    """The first faults, and one that counts the others; the walk always runs to its end."""
    kept = tuple(islice(faults, _LIMIT_FAULTS))
    more = Counter(fault.kind for fault in faults)
    return kept + tuple(JsonFault(kind, f"has {n} more of these") for kind, n in more.items())


def _outcome(faults: tuple[JsonFault, ...], source: Source) -> Outcome:
    total = Outcome()
    for kind in FaultKind:
        found = [_finding(fault, source) for fault in faults if fault.kind is kind]
        total += outcome_of(kind.value, found)
        if found and kind in _FATAL:
            rest = list(FaultKind)[list(FaultKind).index(kind) + 1 :]
            return sum((skipped(k.value, f"waits on {kind.value}") for k in rest), total)
    return total


def _finding(fault: JsonFault, source: Source) -> Finding:
    if fault.pointer is None:
        location = Location(role=source.role, file=source.file, has_value=False)
        return finding(fault.kind.value, f"{source.role} config {fault.message}", location)
    location = source.near(fault.pointer)
    if fault.kind is FaultKind.NON_FINITE:
        location = source.at(fault.pointer, fault.value)
    return finding(fault.kind.value, f"{source.role} {fault.message}", location)
