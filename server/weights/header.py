"""Reading one safetensors header without reading a weight, and without trusting it.

Format: 8 bytes little-endian length N, N bytes of JSON, then the tensors' bytes without holes
(huggingface/safetensors README.md and safetensors/src/tensor.rs). Stricter than that reader in
two ways: the JSON starts with `{`, as the README asks, and no name may occur twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from server.config.strict_json import parse_bytes
from server.config.values import pointer, shorten
from server.findings import JsonValue
from server.weights.files import Shard, WeightFault, open_shard, read_range, shown
from server.weights.foreign import PROBE_BYTES, describe

# The format allows 100 MB; what no header of 100,000 tensors needs would only cost memory.
HEADER_LIMIT_BYTES = 16 * 2**20

_LENGTH_BYTES = 8
_RANK_LIMIT = 64  # keeps the product of a hostile shape small; torch stops at 64 as well
# Bits of one element, for every dtype that the format knows.
DTYPE_BITS: Mapping[str, int] = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor on disk. `dtype` is the format's name (BF16), `begin` an offset in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    size_bytes: int

    @property
    def numel(self) -> int:
        """How many elements the tensor has."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """What one file says it holds; `tensors` by name, in file order."""

    shard: Shard
    tensors: Mapping[str, TensorEntry]


def read_header(path: Path) -> Header:
    """Read and verify the header of one file.

    Raises WeightFault: SD406 not there, SD407 not a valid header, SD408 the file is shorter or
    longer than the header says, SD414 not readable.
    """
    with open_shard(path) as (descriptor, shard):
        probe = read_range(descriptor, PROBE_BYTES, 0)
        length_bytes = _header_length(probe, shard.size_bytes)
        data = read_range(descriptor, length_bytes, _LENGTH_BYTES)
    if len(data) < length_bytes:
        raise WeightFault("SD408", "became shorter while its header was read")
    entries = _entries(_parse(data), path, _LENGTH_BYTES + length_bytes)
    _require_size(entries, _LENGTH_BYTES + length_bytes, shard.size_bytes)
    return Header(shard, {entry.name: entry for entry in entries})


def _header_length(probe: bytes, size_bytes: int) -> int:
    if size_bytes == 0:
        raise WeightFault("SD408", "is empty (0 bytes)")
    length = int.from_bytes(probe[:_LENGTH_BYTES], "little")
    plausible = length <= HEADER_LIMIT_BYTES and probe[_LENGTH_BYTES : _LENGTH_BYTES + 1] == b"{"
    if not plausible and (what := describe(probe)):
        raise WeightFault("SD407", what)
    if size_bytes < _LENGTH_BYTES:
        raise WeightFault("SD408", f"has {size_bytes} bytes, the header length alone takes 8")
    if length > HEADER_LIMIT_BYTES:
        raise WeightFault(
            "SD407", f"states a header of {length} bytes, the limit is {HEADER_LIMIT_BYTES}"
        )
    if size_bytes < _LENGTH_BYTES + length:
        raise WeightFault(
            "SD408", f"has {size_bytes} bytes, its header alone needs {_LENGTH_BYTES + length}"
        )
    if not plausible:
        raise WeightFault("SD407", "has a header that does not start with {")
    return length


def _parse(data: bytes) -> Mapping[str, JsonValue]:
    value, faults = parse_bytes(data)
    if faults or value is None:
        first = faults[0]
        raise WeightFault("SD407", f"header: {first.message}", first.pointer)
    return value


def _entries(raw: Mapping[str, JsonValue], path: Path, base_bytes: int) -> list[TensorEntry]:
    """The tensors in file order. Raises WeightFault SD407 for the first that is wrong."""
    names = [name for name in raw if name != "__metadata__"]
    _require_text_map(raw.get("__metadata__", {}))
    entries = [_entry(name, raw[name], path, base_bytes) for name in names]
    entries.sort(key=lambda entry: (entry.begin, entry.size_bytes))
    end = base_bytes
    for entry in entries:
        if entry.begin != end:
            what = "a hole" if entry.begin > end else "an overlap"
            raise WeightFault(
                "SD407",
                f"has {what} before {shown(entry.name)}: it begins at {entry.begin - base_bytes}, "
                f"the tensor before it ends at {end - base_bytes}",
                pointer(entry.name, "data_offsets"),
            )
        end += entry.size_bytes
    return entries


def _require_text_map(metadata: JsonValue) -> None:
    if not isinstance(metadata, Mapping) or not all(isinstance(v, str) for v in metadata.values()):
        message = f"has a __metadata__ of {shorten(metadata)}, text values are needed"
        raise WeightFault("SD407", message, "/__metadata__")


def _entry(name: str, value: JsonValue, path: Path, base_bytes: int) -> TensorEntry:
    if not isinstance(value, Mapping):
        message = f"tensor {shown(name)} is {shorten(value)}, an object is needed"
        raise WeightFault("SD407", message, pointer(name))
    dtype = value.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        message = f"tensor {shown(name)} has the unknown dtype {shorten(dtype)}"
        raise WeightFault("SD407", message, pointer(name, "dtype"))
    shape = _counts(value.get("shape"))
    offsets = _counts(value.get("data_offsets"))
    if shape is None:
        message = f"tensor {shown(name)} has shape {shorten(value.get('shape'))}"
        raise WeightFault("SD407", message, pointer(name, "shape"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        message = f"tensor {shown(name)} has data_offsets {shorten(value.get('data_offsets'))}"
        raise WeightFault("SD407", message, pointer(name, "data_offsets"))
    size_bytes = offsets[1] - offsets[0]
    if prod(shape) * DTYPE_BITS[dtype] != size_bytes * 8:
        message = f"tensor {shown(name)} of shape {list(shape)} {dtype} is given {size_bytes} bytes"
        raise WeightFault("SD407", message, pointer(name, "data_offsets"))
    return TensorEntry(name, dtype, shape, path, base_bytes + offsets[0], size_bytes)


def _counts(value: JsonValue) -> tuple[int, ...] | None:
    """A short list of integers in [0, 2^63), or None. true is no integer."""
    if not isinstance(value, list) or len(value) > _RANK_LIMIT:
        return None
    if not all(type(item) is int and 0 <= item < 2**63 for item in value):
        return None
    return tuple(value)


def _require_size(entries: Iterable[TensorEntry], base_bytes: int, size_bytes: int) -> None:
    expected = base_bytes + sum(entry.size_bytes for entry in entries)
    if size_bytes == expected:
        return
    difference = abs(size_bytes - expected)
    what = "truncated" if size_bytes < expected else "longer than its header says"
    raise WeightFault(
        "SD408", f"has {size_bytes} bytes, its header needs {expected}: {what} by {difference}"
    )
