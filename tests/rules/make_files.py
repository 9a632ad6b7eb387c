"""Edits of a checkpoint's files that tell themselves."""

import json
import os
from pathlib import Path

from tests.rules.make_checkpoint import SINGLE, Edit
from tests.weights.make import INDEX, write_index

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def mapped(tensor: str, file: str) -> Edit:
    """The index gives `file` for `tensor`."""

    def make(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        write_index(folder, {**index["weight_map"], tensor: file})

    return Edit(f"`{INDEX}`: `{json.dumps({tensor: file})[1:-1]}`", make)


def spaced(place: str) -> Edit:
    """The header has one space "before" or "after" its JSON."""

    def make(folder: Path) -> None:
        data = (folder / SINGLE).read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        text = data[8:end].strip()
        text = b" " + text if place == "before" else text + b" "
        (folder / SINGLE).write_bytes(len(text).to_bytes(8, "little") + text + data[end:])

    return Edit(f"`{SINGLE}`: the header has one space {place} its JSON", make)


def cut(file: str, count_bytes: int) -> Edit:
    """`file` lost bytes at its end."""

    def make(folder: Path) -> None:
        os.truncate(folder / file, (folder / file).stat().st_size - count_bytes)

    return Edit(f"`{file}`: {count_bytes or 'no'} byte is missing at the end", make)


def placed(name: str) -> Edit:
    """The file of all weights has another name."""

    def make(folder: Path) -> None:
        (folder / SINGLE).rename(folder / name)

    return Edit(f"the weights are in `{name}`", make)


def copied(file: str, name: str) -> Edit:
    """A copy of `file` lies beside it."""

    def make(folder: Path) -> None:
        (folder / name).write_bytes((folder / file).read_bytes())

    return Edit(f"a copy of `{file}` lies beside it as `{name}`", make)


def linked(file: str, goal: str, *, there: bool) -> Edit:
    """`file` is a link to a file of another folder, which is there or not."""

    def make(folder: Path) -> None:
        blob = Path(os.path.normpath(folder / goal))
        (folder / file).rename(blob)
        (folder / file).symlink_to(goal)
        if not there:
            blob.unlink()

    return Edit(f"`{file}` is a link to `{goal}`, which is {'' if there else 'not '}there", make)


def of_kind(file: str, kind: str) -> Edit:
    """`file` is a "FIFO" or a "regular file"."""

    def make(folder: Path) -> None:
        if kind == "FIFO":
            (folder / file).unlink()
            os.mkfifo(folder / file)

    return Edit(f"`{file}` is a {kind}", make)


def beside(name: str, *, there: bool) -> Edit:
    """A folder `name` lies beside the checkpoint, or not."""

    def make(folder: Path) -> None:
        if there:
            (folder.parent / name).mkdir()

    return Edit(f"the folder `{name}` is {'' if there else 'not '}there", make)


def stamped(file: str, which: str) -> Edit:
    """The time of last "modification" or "access" of `file` is another."""

    def make(folder: Path) -> None:
        now = (folder / file).stat()
        access, modification = now.st_atime_ns, now.st_mtime_ns
        if which == "access":
            access += 1
        else:
            modification += 1
        os.utime(folder / file, ns=(access, modification))

    return Edit(f"`{file}`: its time of last {which} is 1 ns later", make)
