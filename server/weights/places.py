"""Index and headers must agree about where each tensor is (rule SD410), in both directions.

A stale copy in a second shard overwrites the right one without an error
(https://github.com/vllm-project/vllm/pull/54230).
"""

from collections.abc import Iterator, Mapping

from server.weights.files import count, name_list
from server.weights.header import Header


def misplaced(weight_map: Mapping[str, str], headers: Mapping[str, Header]) -> Iterator[str]:
    """One clause per kind of disagreement. `headers` are the shards that could be read."""
    homes: dict[str, list[str]] = {}
    for file, header in headers.items():
        for name in header.tensors:
            homes.setdefault(name, []).append(file)
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    if twice:
        yield f"shards hold {count(len(twice), 'tensor')} more than once: {_places(twice)}"
    # A shard that could not be read has its own finding; what it holds is not known.
    absent = {
        name: homes.get(name, [])
        for name, file in weight_map.items()
        if file in headers and name not in headers[file].tensors
    }
    if absent:
        number = count(len(absent), "tensor")
        yield f"index names {number} not in the shard it gives: {_places(absent)}"
    unlisted = {name: files for name, files in homes.items() if name not in weight_map}
    if unlisted:
        number = count(len(unlisted), "tensor")
        yield f"shards hold {number} that the index omits: {_places(unlisted)}"


def _places(homes: Mapping[str, list[str]]) -> str:
    shown = [f"{name} ({' and '.join(files) or 'in no shard'})" for name, files in homes.items()]
    return name_list(shown)
