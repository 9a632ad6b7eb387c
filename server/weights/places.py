"""Index and headers must agree about where each tensor is (rule SD410), in both directions.

A stale copy in a second shard overwrites the right one without an error
(https://github.com/vllm-project/vllm/pull/54230).
"""

from collections.abc import Iterator, Mapping

from server.weights.files import count, name_list
from server.weights.header import Header


def misplaced(
    weight_map: Mapping[str, str], headers: Mapping[str, Header], lost: frozenset[str]
) -> Iterator[str]:
    """One clause per kind of disagreement. `headers` are the shards that could be read.

    `lost` are tensors to which the index gives an impossible file; that has its own finding.
    """
    yield from _same_files(headers)
    homes: dict[str, list[str]] = {}
    for file, header in headers.items():
        for name in (*header.tensors, *header.bad):
            homes.setdefault(name, []).append(file)
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    if twice:
        yield f"shards hold {count(len(twice), 'tensor')} more than once: {_places(twice)}"
    # A shard that could not be read has its own finding; what it holds is not known.
    absent = {
        name: homes.get(name, [])
        for name, file in weight_map.items()
        if file in headers and file not in homes.get(name, [])
    }
    if absent:
        number = count(len(absent), "tensor")
        yield f"index names {number} not in the shard it gives: {_places(absent)}"
    unlisted = {n: files for n, files in homes.items() if n not in weight_map and n not in lost}
    if unlisted:
        number = count(len(unlisted), "tensor")
        yield f"shards hold {number} that the index omits: {_places(unlisted)}"


def _same_files(headers: Mapping[str, Header]) -> Iterator[str]:
    """Two names of one file, as links make them: one of the two shards is not there at all."""
    files: dict[tuple[int, int], list[str]] = {}
    for file, header in headers.items():
        files.setdefault((header.shard.device, header.shard.inode), []).append(file)
    for same in files.values():
        if len(same) > 1:
            yield f"index names one file {len(same)} times: {name_list(same)}"


def _places(homes: Mapping[str, list[str]]) -> str:
    shown = [f"{name} ({' and '.join(files) or 'in no shard'})" for name, files in homes.items()]
    return name_list(shown)
