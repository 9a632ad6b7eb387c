"""Samples to try the server on: written from code, needing no network and no other package.

Files are written by hand in the safetensors format (huggingface/safetensors README.md), since
that package's writer takes other arguments from version to version and gives files mode 0600.
Its parser has the last word all the same: see `server/weights/second_opinion.py`.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from server.config.tensors import ExpectedTensor
from server.limits import pass_on_limit
from server.weights.sample_configs import CONFIGS, tensors_of

PREFIX = "sample:"
SAMPLE_NAMES: tuple[str, ...] = tuple(f"{PREFIX}{name}" for name in CONFIGS)

# Raised with every change of the content; versions lie side by side in a cache.
_VERSION = 1
_MANIFEST = "sample.json"
_TARGET_SHARDS = 3
_BF16_BYTES = 2


class SampleError(Exception):
    """A sample is not known (`rule` SD112) or cannot be written at `path` (SD605)."""

    def __init__(self, rule: str, message: str, path: Path | None = None) -> None:
        """Hold the rule, one clause, and the path if there is one."""
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path


def materialise(name: str, cache: Path) -> Path:
    """The folder of sample `name` (such as sample:qwen3) below `cache`, written when needed.

    Safe against other processes that do the same. Raises SampleError.
    """
    plain = name.removeprefix(PREFIX)
    if plain not in CONFIGS:
        known = ", ".join(SAMPLE_NAMES)
        raise SampleError("SD112", f"{name} is not a sample; the samples are {known}")
    final = cache / "samples" / f"v{_VERSION}" / plain
    try:
        if not _is_complete(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            _publish(plain, final)
    except (OSError, ValueError) as error:
        pass_on_limit(error)
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SampleError("SD605", f"sample {plain} cannot be written: {why}", final) from None
    return final


def _is_complete(folder: Path) -> bool:
    """Whether every file that the manifest lists is there in its full size."""
    try:
        sizes = json.loads((folder / _MANIFEST).read_bytes())
        return bool(sizes) and all((folder / f).stat().st_size == n for f, n in sizes.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _publish(plain: str, final: Path) -> None:
    """Write into a folder beside `final`, then rename: nobody ever sees half a sample."""
    temporary = final.with_name(f".{plain}.new")
    with _lock(final.parent / ".lock"):
        if _is_complete(final):
            return
        _remove(temporary)
        temporary.mkdir()
        try:
            _write(plain, temporary)
            _remove(final)
            temporary.rename(final)
        finally:
            _remove(temporary)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    # Imported here: a sample that is complete needs none of it.
    from shutil import rmtree

    if path.is_dir() and not path.is_symlink():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(plain: str, folder: Path) -> None:
    _write_json(folder / "config.json", CONFIGS[plain])
    tensors = tensors_of(plain)
    if plain == "qwen3":
        _write_sharded(plain, folder, tensors)
    elif tensors:
        _write_safetensors(plain, folder / "model.safetensors", tensors)
    _write_json(folder / _MANIFEST, {file.name: file.stat().st_size for file in folder.iterdir()})


def _write_sharded(plain: str, folder: Path, tensors: Sequence[ExpectedTensor]) -> None:
    total = sum(map(_size_bytes, tensors))
    shards: list[list[ExpectedTensor]] = [[] for _ in range(_TARGET_SHARDS)]
    done = 0
    for tensor in tensors:
        shards[done * _TARGET_SHARDS // total].append(tensor)
        done += _size_bytes(tensor)
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{_TARGET_SHARDS:05d}.safetensors"
        _write_safetensors(plain, folder / file, shard)
        weight_map.update(dict.fromkeys((tensor.name for tensor in shard), file))
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    _write_json(folder / "model.safetensors.index.json", index)


def _write_safetensors(plain: str, path: Path, tensors: Sequence[ExpectedTensor]) -> None:
    # Imported here: a sample that is complete needs none of it.
    from server.weights.sample_tensors import tensor_bytes

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        begin, end = end, end + _size_bytes(tensor)
        shape = list(tensor.shape)
        header[tensor.name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            file.write(tensor_bytes(plain, tensor, prod(tensor.shape)))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def _size_bytes(tensor: ExpectedTensor) -> int:
    return prod(tensor.shape) * _BF16_BYTES
