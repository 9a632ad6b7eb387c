"""The reference parser's view of each shard, before a byte of it is believed.

Our header pass is fast and needs no torch; the safetensors package is the format's own
implementation. A file on which the two disagree is not loaded.
"""

from collections.abc import Iterator
from itertools import groupby

from safetensors import SafetensorError, safe_open

from server.limits import pass_on_limit
from server.weights.entries import TensorEntry
from server.weights.load_plan import LoadPlan
from server.weights.spelling import EXPORT_PREFIX


def disagreements(plan: LoadPlan) -> Iterator[tuple[TensorEntry, str]]:
    """Planned tensors that the safetensors package sees otherwise, each with what it says."""
    for path, entries in groupby(plan.whole or plan.entries, key=lambda entry: entry.file):
        yield from _compare(str(path), list(entries))


def _compare(path: str, entries: list[TensorEntry]) -> Iterator[tuple[TensorEntry, str]]:
    try:
        with safe_open(path, framework="pt") as shard:
            names = set(shard.keys())
            for entry in entries:
                plain = entry.name in names
                name = entry.name if plain else f"{EXPORT_PREFIX}{entry.name}"
                if name not in names:
                    yield entry, "it is not there"
                    continue
                part = shard.get_slice(name)
                seen = (part.get_dtype(), tuple(part.get_shape()))
                if seen != (entry.dtype, entry.shape):
                    yield entry, f"it is {seen[0]} {list(seen[1])}"
    except (SafetensorError, OSError) as error:
        pass_on_limit(error)
        yield entries[0], str(error)
