"""The entries of one safetensors header: what each says, and whether together they tile the file.

Rules: huggingface/safetensors safetensors/src/tensor.rs (`Metadata::validate`). An entry that
is wrong does not hide the others: all are told, ten at most and a count.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from sys import intern
from typing import NamedTuple

from server.config.values import pointer, shorten
from server.findings import JsonValue
from server.weights.files import WeightFault, shown

_METADATA = "__metadata__"
_RANK_LIMIT = 64  # keeps the product of a hostile shape small; torch stops at 64 as well
_COUNT_LIMIT = 2**63
_FAULTS_SHOWN = 10
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


class TensorEntry(NamedTuple):
    """One tensor on disk. `dtype` is the format's name (BF16), `begin` an offset in the file.

    With `pitch_bytes` it is a range of columns of a larger one, whose rows begin so far apart.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int
    size_bytes: int
    pitch_bytes: int = 0

    @property
    def numel(self) -> int:
        """How many elements the tensor has."""
        return prod(self.shape)

    @property
    def end(self) -> int:
        """Where it ends in the file."""
        if not self.pitch_bytes:
            return self.begin + self.size_bytes
        rows = self.shape[0]
        return self.begin + (rows - 1) * self.pitch_bytes + self.size_bytes // rows


class Entries(NamedTuple):
    """The entries that could be read, in file order, the names of the others, and all faults.

    `end_bytes`: where the last tensor ends in the file, None when some entry does not say.
    """

    good: Sequence[TensorEntry]
    bad: Sequence[str]
    faults: Sequence[WeightFault]
    end_bytes: int | None


def read_entries(raw: Mapping[str, JsonValue], path: Path, base_bytes: int) -> Entries:
    """The tensors of the header `raw`, whose data begins at `base_bytes`. Faults are SD407."""
    good: list[TensorEntry] = []
    bad: list[str] = []
    faults = list(_metadata_faults(raw.get(_METADATA, {})))
    for name, value in raw.items():
        if name == _METADATA:
            continue
        try:
            good.append(_entry(name, value, path, base_bytes))
        except WeightFault as fault:
            bad.append(name)
            faults.append(fault)
    placed = [_place(name, raw[name], path, base_bytes) for name in bad]
    good.sort(key=_by_place)
    everything = good
    if placed:
        everything = sorted((*good, *(e for e in placed if e is not None)), key=_by_place)
    if None in placed:
        return Entries(good, bad, _first(faults), None)
    faults += _gaps(everything, base_bytes)
    end = max((entry.begin + entry.size_bytes for entry in everything), default=base_bytes)
    return Entries(good, bad, _first(faults), end)


def _by_place(entry: TensorEntry) -> tuple[int, int]:
    return entry.begin, entry.size_bytes


def _place(name: str, value: JsonValue, path: Path, base_bytes: int) -> TensorEntry | None:
    """Where a tensor lies of which nothing else can be said; None when it does not say that."""
    offsets = _offsets(value) if isinstance(value, dict) else None
    if offsets is None:
        return None
    return TensorEntry(name, "", (), path, base_bytes + offsets[0], offsets[1] - offsets[0])


def _gaps(entries: Sequence[TensorEntry], base_bytes: int) -> Iterator[WeightFault]:
    end = base_bytes
    for entry in entries:
        if entry.begin != end:
            what = "a hole" if entry.begin > end else "an overlap"
            yield WeightFault(
                "SD407",
                f"has {what} before {shown(entry.name)}: it begins at {entry.begin - base_bytes}, "
                f"the tensor before it ends at {end - base_bytes}",
                pointer(entry.name, "data_offsets"),
            )
        end = max(end, entry.begin + entry.size_bytes)


def _metadata_faults(metadata: JsonValue) -> Iterator[WeightFault]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        message = f"has a __metadata__ of {shorten(metadata)}, text values are needed"
        yield WeightFault("SD407", message, pointer(_METADATA))


def _entry(name: str, value: JsonValue, path: Path, base_bytes: int) -> TensorEntry:
    if not isinstance(value, dict):
        message = f"tensor {shown(name)} is {shorten(value)}, an object is needed"
        raise WeightFault("SD407", message, pointer(name))
    dtype = value.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        message = f"tensor {shown(name)} has the unknown dtype {shorten(dtype)}"
        raise WeightFault("SD407", message, pointer(name, "dtype"))
    shape = _counts(value.get("shape"))
    if shape is None:
        message = f"tensor {shown(name)} has shape {shorten(value.get('shape'))}"
        raise WeightFault("SD407", message, pointer(name, "shape"))
    offsets = _offsets(value)
    if offsets is None:
        message = f"tensor {shown(name)} has data_offsets {shorten(value.get('data_offsets'))}"
        raise WeightFault("SD407", message, pointer(name, "data_offsets"))
    size_bytes = offsets[1] - offsets[0]
    if prod(shape) * DTYPE_BITS[dtype] != size_bytes * 8:
        message = f"tensor {shown(name)} of shape {list(shape)} {dtype} is given {size_bytes} bytes"
        raise WeightFault("SD407", message, pointer(name, "data_offsets"))
    return TensorEntry(name, intern(dtype), shape, path, base_bytes + offsets[0], size_bytes)


def _offsets(value: Mapping[str, JsonValue]) -> tuple[int, int] | None:
    """data_offsets as (begin, end), or None when they are not two numbers in order."""
    offsets = _counts(value.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        return None
    return offsets[0], offsets[1]


def _counts(value: JsonValue) -> tuple[int, ...] | None:
    """A short list of integers in [0, 2^63), or None. true is no integer."""
    if not isinstance(value, list) or len(value) > _RANK_LIMIT:
        return None
    for item in value:
        if type(item) is not int or not 0 <= item < _COUNT_LIMIT:
            return None
    return tuple(value)


def _first(faults: Sequence[WeightFault]) -> Sequence[WeightFault]:
    more = len(faults) - _FAULTS_SHOWN
    if more <= 0:
        return faults
    return [*faults[:_FAULTS_SHOWN], WeightFault("SD407", f"has {more} more such faults")]
