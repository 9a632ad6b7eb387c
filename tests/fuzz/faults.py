"""Faults that a run found: told apart by their cause, made small, and kept as files."""

import hashlib
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from tests.fuzz.blob import Blob, unpacked
from tests.fuzz.judge import Fault
from tests.fuzz.trees import STRANGE, copy_of, dump, get, load, put
from tests.mutations.text import Tree

Judge: TypeAlias = Callable[[bytes], object]
_Change: TypeAlias = Callable[[list[Tree], int], None]

_ROOT = Path(__file__).resolve().parents[2] / "server"
_SMALL: tuple[Tree, ...] = (None, 0, "", *STRANGE[1:3])
_LIMIT_S = 20.0


def cause(error: BaseException) -> str:
    """The same text for the same fault: its kind, or the exception and the line that raised it."""
    if isinstance(error, Fault):
        return error.kind
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT)]
    last = (ours or frames)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} ({last.name})"


def cause_of(judge: Judge, data: bytes) -> str:
    """What `data` does: the cause of its fault, or an empty text."""
    try:
        judge(data)
    except Exception as error:  # whatever the gate lets out is the finding
        return cause(error)
    return ""


class Faults:
    """Each cause once, with the smallest input that was found for it, in `folder`."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        """`folder` exists. `judge` is what an input is made smaller with."""
        self._folder, self._judge = folder, judge
        self.found: dict[str, str] = {}

    def keep(self, data: bytes, error: Exception) -> None:
        """Write down a new cause with its input, made smaller; a known one is only counted."""
        known = cause(error)
        if known in self.found:
            return
        name = f"fault-{hashlib.sha256(known.encode()).hexdigest()[:12]}"
        self.found[known] = name
        (self._folder / f"{name}.first").write_bytes(data)
        small = minimised(data, known, self._judge)
        (self._folder / f"{name}.input").write_bytes(small)
        trace = "".join(traceback.format_exception(error))
        (self._folder / f"{name}.txt").write_text(f"{known}\n\n{small!a}\n\n{trace}")


def minimised(data: bytes, known: str, judge: Judge) -> bytes:
    """A smaller input with the same cause: parts, keys and items left out, values made plain."""
    end_s = time.monotonic() + _LIMIT_S
    smaller = True
    while smaller and time.monotonic() < end_s:
        smaller = False
        for candidate in _smaller(unpacked(data)):
            if time.monotonic() > end_s:
                break
            if len(candidate) < len(data) and cause_of(judge, candidate) == known:
                data, smaller = candidate, True
                break
    return data


def _smaller(blob: Blob) -> Iterator[bytes]:
    for part in reversed(Blob._fields):
        held = getattr(blob, part)
        if not held:
            continue
        yield blob._replace(**{part: b""}).packed()
        tree = load(held)
        if isinstance(tree, list):
            for less in _smaller_trees(tree):
                yield blob._replace(**{part: dump(less)}).packed()
        else:
            for size in (len(held) // 2, len(held) - 1):
                yield blob._replace(**{part: held[:size]}).packed()
                yield blob._replace(**{part: held[-size:]}).packed()


def _smaller_trees(tree: Tree) -> Iterator[Tree]:
    for path in _paths(tree, ()):
        yield _changed(tree, path, _removed)
        for plain in _SMALL:
            yield _changed(tree, path, _putting(plain))


def _removed(home: list[Tree], at: int) -> None:
    del home[at]


def _putting(value: Tree) -> _Change:
    return lambda home, at: put((home, at), value)


def _changed(tree: Tree, path: tuple[int, ...], change: _Change) -> Tree:
    less = copy_of(tree)
    *parents, at = path
    home = less
    for step in parents:
        home = get((home, step))
    change(home, at)
    return less


def _paths(tree: Tree, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for at in range(len(tree)):
        yield (*path, at)
        value = get((tree, at))
        if isinstance(value, list):
            yield from _paths(value, (*path, at))
