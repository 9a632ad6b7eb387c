"""A good target of two shards with holes for weights, and ways to break it on disk."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from server.weights.layout import target_layout
from tests.weights.make import GEOMETRY, INDEX, make_target, raw_file

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"
Q_PROJ, K_PROJ = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight"
Break = Callable[[Path], None]

_SIZES = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 2048, "head_dim": 64}
_FIRST_TENSORS = 12  # the embedding and layer 0
_BITS = {"BF16": 16, "F16": 16, "F32": 32, "I32": 32, "F8_E4M3": 8, "U8": 8, "I8": 8}


def make_checkpoint(folder: Path) -> Path:
    """config.json, index and two shards of a Qwen3 with two layers."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**GEOMETRY, **_SIZES, "num_hidden_layers": 2, "model_type": "qwen3"}
    config["architectures"] = ["Qwen3ForCausalLM"]
    (folder / "config.json").write_text(json.dumps(config))
    layout = target_layout(make_target(**_SIZES))
    weight_map = {}
    for file, part in ((FIRST, layout[:_FIRST_TENSORS]), (SECOND, layout[_FIRST_TENSORS:])):
        write_shard(folder / file, {t.name: ("BF16", list(t.shape)) for t in part})
        weight_map.update(dict.fromkeys((t.name for t in part), file))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def write_shard(path: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> None:
    """A file with a right header for `tensors` (name to dtype and shape) and a hole behind it."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + prod(shape) * _BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    write_raw(path, header, end)


def write_raw(path: Path, header: Mapping[str, Any] | bytes, data_bytes: int) -> None:
    """A file with any header at all and a hole of `data_bytes`."""
    head = raw_file(header, 0)
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + data_bytes)


def read_raw(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a good file, and how many bytes are behind it."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return header, path.stat().st_size - 8 - length


@contextmanager
def tensors_of(path: Path) -> Iterator[dict[str, tuple[str, list[int]]]]:
    """The tensors of a shard to change; the shard is then written anew, without a fault."""
    header, _ = read_raw(path)
    tensors = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}
    yield tensors
    write_shard(path, tensors)


@contextmanager
def index_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The weight_map to change."""
    index = json.loads((folder / INDEX).read_text())
    yield index["weight_map"]
    (folder / INDEX).write_text(json.dumps(index))


def entry(name: str, **fields: object) -> Break:
    """Change one entry of a header of the first shard, and nothing else of the file."""

    def apply(folder: Path) -> None:
        header, data_bytes = read_raw(folder / FIRST)
        header[name] = {**header[name], **fields}
        write_raw(folder / FIRST, header, data_bytes)

    return apply


def config(**fields: object) -> Break:
    """Change fields of config.json."""

    def apply(folder: Path) -> None:
        raw = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**raw, **fields}))

    return apply


def resize(file: str, by_bytes: int) -> Break:
    """Cut bytes from the end of a shard, or add some."""

    def apply(folder: Path) -> None:
        size_bytes = (folder / file).stat().st_size
        with (folder / file).open("r+b") as opened:
            opened.truncate(size_bytes + by_bytes)

    return apply


def content(file: str, data: bytes) -> Break:
    """Put `data` in the place of a file."""

    def apply(folder: Path) -> None:
        (folder / file).write_bytes(data)

    return apply


def store(name: str, dtype: str, shape: list[int], file: str = FIRST) -> Break:
    """Store a tensor in a shard, in the place of one of that name or new; listed in the index."""

    def apply(folder: Path) -> None:
        with tensors_of(folder / file) as tensors:
            tensors[name] = (dtype, shape)
        with index_of(folder) as weight_map:
            weight_map[name] = file

    return apply


def drop(name: str, file: str) -> Break:
    """Take a tensor out of a shard and out of the index."""

    def apply(folder: Path) -> None:
        with tensors_of(folder / file) as tensors:
            del tensors[name]
        with index_of(folder) as weight_map:
            del weight_map[name]

    return apply


def point(name: str, file: object) -> Break:
    """Let the index give another file for a tensor."""

    def apply(folder: Path) -> None:
        with index_of(folder) as weight_map:
            weight_map[name] = file

    return apply


def both(*breaks: Break) -> Break:
    """Several changes, one after the other."""

    def apply(folder: Path) -> None:
        for change in breaks:
            change(folder)

    return apply


def nothing(folder: Path) -> None:
    """The good checkpoint itself."""
