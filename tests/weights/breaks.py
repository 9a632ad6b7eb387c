"""Ways to break a whole folder of weights: files that go, come, move, or become links."""

import json
import os
from pathlib import Path

from tests.weights.make import INDEX
from tests.weights.sparse import (
    FIRST,
    Q_PROJ,
    SECOND,
    Break,
    both,
    content,
    read_raw,
    tensors_of,
    write_raw,
)

SINGLE = "model.safetensors"


def unlink(*files: str) -> Break:
    def apply(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return apply


def rename(old: str, new: str) -> Break:
    def apply(folder: Path) -> None:
        (folder / old).rename(folder / new)

    return apply


def empty(folder: Path) -> None:
    unlink(FIRST, SECOND, INDEX)(folder)


def single(folder: Path) -> None:
    """One file instead of two."""
    with tensors_of(folder / FIRST) as first, tensors_of(folder / SECOND) as second:
        first.update(second)
    unlink(SECOND, INDEX)(folder)
    rename(FIRST, SINGLE)(folder)


def single_and_index(folder: Path) -> None:
    (folder / SINGLE).write_bytes((folder / FIRST).read_bytes())


def pickles(*names: str) -> Break:
    return both(*(content(name, b"\x80\x02}q\x00.") for name in names))


def truncate(file: str, to_bytes: int) -> Break:
    def apply(folder: Path) -> None:
        os.truncate(folder / file, to_bytes)

    return apply


def links(folder: Path) -> None:
    """The shards as a Hugging Face cache has them."""
    blobs = folder.parent.parent / "blobs"
    blobs.mkdir()
    for file in (FIRST, SECOND, INDEX, "config.json"):
        (folder / file).rename(blobs / f"hash-of-{file}")
        (folder / file).symlink_to(f"../../blobs/hash-of-{file}")


def dangling(folder: Path) -> None:
    links(folder)
    (folder.parent.parent / "blobs" / f"hash-of-{SECOND}").unlink()


def loop(folder: Path) -> None:
    unlink(SECOND)(folder)
    (folder / SECOND).symlink_to(SECOND)


def fifo(folder: Path) -> None:
    unlink(SECOND)(folder)
    os.mkfifo(folder / SECOND)


def one_file_twice(folder: Path) -> None:
    unlink(SECOND)(folder)
    (folder / SECOND).symlink_to(FIRST)


def stale(name: str, file: str) -> Break:
    """A second copy of a tensor in another shard than the index gives."""

    def apply(folder: Path) -> None:
        with tensors_of(folder / file) as tensors:
            tensors[name] = ("BF16", [8])

    return apply


def twice(folder: Path) -> None:
    """One name twice in a header, as JSON text."""
    header, data_bytes = read_raw(folder / FIRST)
    text = json.dumps(header).rstrip("}") + "}, " + json.dumps({Q_PROJ: header[Q_PROJ]})[1:]
    write_raw(folder / FIRST, text.encode(), data_bytes)


def metadata(value: object) -> Break:
    def apply(folder: Path) -> None:
        header, data_bytes = read_raw(folder / FIRST)
        write_raw(folder / FIRST, {"__metadata__": value, **header}, data_bytes)

    return apply


def length(number: int) -> Break:
    """Another header length in the first eight bytes."""

    def apply(folder: Path) -> None:
        with (folder / FIRST).open("r+b") as file:
            file.write(number.to_bytes(8, "little"))

    return apply


def trailing_index(folder: Path) -> None:
    (folder / INDEX).write_text((folder / INDEX).read_text() + "}")


def stray(folder: Path) -> None:
    (folder / "consolidated.safetensors").write_bytes(b"never opened")
