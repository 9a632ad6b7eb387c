"""What is read of a checkpoint that was judged, in which order, and what of it will be resident."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from server.config.geometry import DTYPE_BYTES
from server.weights.entries import TensorEntry
from server.weights.files import Shard

# The dtypes that are loaded: the format's name, torch's name.
TORCH_NAMES: Mapping[str, str] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to read. `entries` are in (file, offset) order, all of one `dtype` (torch's name).

    Where they are parts of tensors, `whole` are the tensors.
    """

    role: str
    entries: tuple[TensorEntry, ...]
    shards: Mapping[Path, Shard]
    dtype: str
    whole: tuple[TensorEntry, ...] = ()

    @property
    def numel(self) -> int:
        """Parameters that will be resident."""
        return sum(entry.numel for entry in self.entries)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes that will be read from disk."""
        return sum(entry.size_bytes for entry in self.entries)


def resident_bytes(plan: LoadPlan, dtype: str | None = None) -> int:
    """Bytes of the loaded parameters under `dtype` (torch's name), or as they are stored."""
    return plan.numel * DTYPE_BYTES[dtype or plan.dtype]
