"""Reading one safetensors header without reading a weight, and without trusting it.

Format: 8 bytes little-endian length N, N bytes of JSON, then the tensors' bytes without holes
(huggingface/safetensors README.md and safetensors/src/tensor.rs). Stricter than that reader in
two ways: the JSON starts with `{`, as the README asks, and no name may occur twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from server.config.strict_json import parse_bytes
from server.weights.entries import TensorEntry, read_entries
from server.weights.files import Shard, WeightFault, open_shard, read_range
from server.weights.foreign import PROBE_BYTES, describe

# The format allows 100 MB; what no header of 100,000 tensors needs would only cost memory.
HEADER_LIMIT_BYTES = 16 * 2**20

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Header:
    """What one file says it holds; `tensors` by name, in file order.

    `bad` are the names of tensors of which it says something impossible.
    """

    shard: Shard
    tensors: Mapping[str, TensorEntry]
    bad: tuple[str, ...] = ()


def examine(path: Path) -> tuple[Header | None, tuple[WeightFault, ...]]:
    """The header of one file, as far as it can be read, and all of its faults. Never raises.

    SD406 not there, SD407 not a valid header, SD408 the file is shorter or longer than the
    header says, SD414 not readable. Bytes after a header are not read.
    """
    try:
        with open_shard(path) as (descriptor, shard):
            data = _header_bytes(descriptor, shard.size_bytes)
    except WeightFault as fault:
        return None, (fault,)
    raw, found = parse_bytes(data)
    if raw is None or found:
        # With a name given twice, one of its two places would only look like a hole.
        told = (WeightFault("SD407", f"header: {f.message}", f.pointer) for f in found)
        return None, tuple(told)
    entries = read_entries(raw, path, _LENGTH_BYTES + len(data))
    header = Header(shard, {entry.name: entry for entry in entries.good}, tuple(entries.bad))
    return header, (*entries.faults, *_size_faults(entries.end_bytes, shard.size_bytes))


def _header_bytes(descriptor: int, size_bytes: int) -> bytes:
    """The JSON text. Raises WeightFault when the file is none, or shorter than its header."""
    start = read_range(descriptor, _LENGTH_BYTES + 1, 0)
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    if length > HEADER_LIMIT_BYTES or start[_LENGTH_BYTES:] != b"{":
        probe = read_range(descriptor, PROBE_BYTES, 0)
        _refuse_start(probe, length, size_bytes)
    _require_room(length, size_bytes)
    data = read_range(descriptor, length, _LENGTH_BYTES)
    if len(data) < length:
        raise WeightFault("SD408", "became shorter while its header was read")
    return data


def _refuse_start(probe: bytes, length: int, size_bytes: int) -> NoReturn:
    """Say what is wrong with a file whose first nine bytes begin no header."""
    if size_bytes == 0:
        raise WeightFault("SD408", "is empty (0 bytes)")
    if what := describe(probe):
        raise WeightFault("SD407", what)
    if size_bytes < _LENGTH_BYTES:
        raise WeightFault("SD408", f"has {size_bytes} bytes, the header length alone takes 8")
    if length > HEADER_LIMIT_BYTES:
        raise WeightFault(
            "SD407", f"states a header of {length} bytes, the limit is {HEADER_LIMIT_BYTES}"
        )
    _require_room(length, size_bytes)
    raise WeightFault("SD407", "has a header that does not start with {")


def _require_room(length_bytes: int, size_bytes: int) -> None:
    needed_bytes = _LENGTH_BYTES + length_bytes
    if size_bytes < needed_bytes:
        raise WeightFault("SD408", f"has {size_bytes} bytes, its header alone needs {needed_bytes}")


def _size_faults(expected: int | None, size_bytes: int) -> list[WeightFault]:
    if expected is None or expected == size_bytes:
        return []
    difference = abs(size_bytes - expected)
    what = "truncated" if size_bytes < expected else "longer than its header says"
    message = f"has {size_bytes} bytes, its header needs {expected}: {what} by {difference}"
    return [WeightFault("SD408", message)]
