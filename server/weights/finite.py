"""Telling values that are no numbers, on each part of a tensor while it is still in the cache."""

import math
from collections import Counter
from collections.abc import Mapping
from threading import Lock

import torch

from server.weights.entries import TensorEntry
from server.weights.files import count
from server.weights.load_plan import LoadPlan
from server.weights.pieces import LoadError

# Of this many elements a second copy is held, no more: a tensor on a GPU is looked at whole.
_PART_NUMEL = 2**22


class NotFiniteError(LoadError):
    """A weight was read, and holds what is not a number."""

    rule = "SD418"


def not_finite(values: torch.Tensor) -> int:
    """How many of the values, [n], are NaN or infinite.

    A sum is not finite where one term is not, and costs a fraction of looking at each; it may
    also overflow over finite terms, so that what it says is looked at again.
    """
    if math.isfinite(values.sum()):
        return 0
    # x - x is 0 for a number and NaN for the others; torch.isfinite is many times slower.
    parts = (values[at : at + _PART_NUMEL] for at in range(0, len(values), _PART_NUMEL))
    return sum(int(torch.count_nonzero(part - part)) for part in parts)


class Tally:
    """Counts, tensor by tensor, what is not finite. Shared by threads."""

    def __init__(self) -> None:
        """Nothing was found yet."""
        self._found: Counter[str] = Counter()
        self._lock = Lock()

    def look(self, entry: TensorEntry, values: torch.Tensor) -> None:
        """Count in a part of the tensor of `entry`."""
        if wrong := not_finite(values):
            with self._lock:
                self._found[entry.name] += wrong

    def require_finite(self, plan: LoadPlan, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises NotFiniteError for the first tensor in file order that holds such values."""
        for entry in plan.entries:
            if wrong := self._found[entry.name]:
                dtype = str(tensors[entry.name].dtype).removeprefix("torch.")
                told = f"holds {count(wrong, 'value')} not finite as {dtype}"
                raise NotFiniteError(f"{told}, stored as {entry.dtype}", entry.file, entry.name)
