"""Compares output that a page shows with what is printed now, leaving out what a machine decides.

Of text the words must be the same, in order; "..." stands for any. Figures, units, bars, counts of
findings and the beginnings of paths are left out. Of JSON every key that a page shows must be there
with its value; figures that are measured and paths only have to be of the same kind.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.docs.pages import ELISION

_PATH = re.compile(r"(?<![^\s\"])/\S*?/(?=samples/|huggingface/)")
_COUNTS = re.compile(r"(no findings|\d+ (error|warning|note)s?(, \d+ (warning|note)s?)*);")
_FIGURE = re.compile(r"[(+-]*[\d.,]*(B|[KMG]i?B)?[),;]*")
_BAR = re.compile(r"[A-G█▓▒░]{5,}")


def missing_words(shown: str, printed: str) -> str:
    """The first part of `shown` that `printed` does not hold, in order; empty when there is none.

    Parts are what stands between elisions.
    """
    have = f" {' '.join(_words(printed))} "
    for part in _parts(shown):
        wanted = f" {' '.join(_words(part))} "
        before, found, after = have.partition(wanted)
        if not found:
            return f"{wanted.strip()}\n--- is not in ---\n{before.strip()}"
        have = f" {after}"
    return ""


def unlike(shown: Any, real: Any, where: str = "") -> str:  # noqa: ANN401
    """The first place at which `shown` is not within `real`; empty when there is none."""
    if isinstance(shown, Mapping) and isinstance(real, Mapping):
        absent = [f"{where}/{key} is not there" for key in shown if key not in real]
        within = (unlike(value, real[key], f"{where}/{key}") for key, value in shown.items())
        return absent[0] if absent else next(filter(None, within), "")
    if isinstance(shown, list) and isinstance(real, list):
        for item in shown:
            if all(unlike(item, other) for other in real):
                return f"{where} holds no {item}"
        return ""
    if isinstance(shown, float) or (isinstance(shown, str) and _PATH.match(shown)):
        return "" if type(shown) is type(real) else f"{where} is {real!r}, not {shown!r}"
    return "" if shown == real else f"{where} is {real!r}, not {shown!r}"


def _parts(shown: str) -> Iterator[str]:
    part: list[str] = []
    for line in shown.splitlines():
        if line.strip() == ELISION:
            yield "\n".join(part)
            part = []
        else:
            part.append(line)
    yield "\n".join(part)


def _words(text: str) -> list[str]:
    text = _COUNTS.sub("findings;", _PATH.sub("", text))
    return [w for w in text.split() if not (_FIGURE.fullmatch(w) or _BAR.fullmatch(w))]
