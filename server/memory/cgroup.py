"""Memory bounds that control groups put on this process. Standard library only.

A container's limit is far below what the host reports: sgl-project/sglang pull request 40066 met
692 GiB of host memory behind a limit of 150 GiB. A group's parents bind as well, so every
level up to the root is read. Version 1 writes "unlimited" as a number near 2**63, which is
larger than any memory and so never binds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from server.limits import pass_on_limit


@dataclass(frozen=True, slots=True)
class Bound:
    """One upper bound on memory: `limit_bytes`, of which `used_bytes` cannot be had."""

    source: str
    limit_bytes: int
    used_bytes: int

    @property
    def available_bytes(self) -> int:
        """What is left under this bound, never below 0."""
        return max(0, self.limit_bytes - self.used_bytes)


@dataclass(frozen=True, slots=True)
class _Files:
    """How one version of the interface names its files."""

    limit: str
    usage: str
    page_cache: tuple[str, str]


# Active pages are in it: a file that is read twice, as weights are, has no others.
_V1 = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)
_V2 = _Files("memory.max", "memory.current", ("inactive_file", "active_file"))


def cgroup_bounds(proc: Path, root: Path) -> tuple[Bound, ...]:
    """Every memory bound of this process's control groups; files that are missing bind nothing."""
    found: list[Bound] = []
    for base, path, files in _groups(proc, root):
        for folder in _upwards(base, path):
            bound = _bound(folder, files)
            if bound:
                found.append(bound)
    return tuple(found)


def read_text(path: Path) -> str:
    """The text of a kernel file, or "" when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        pass_on_limit(error)  # a bound that is not read would not be kept
        return ""


def _groups(proc: Path, root: Path) -> Iterator[tuple[Path, str, _Files]]:
    for line in read_text(proc / "self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            yield root, path, _V2
            yield root / "unified", path, _V2
        elif "memory" in controllers.split(","):
            yield root / "memory", path, _V1


def _upwards(base: Path, path: str) -> Iterator[Path]:
    """The group's folder and its parents up to `base`.

    Inside a container the path may be the host's, or lead out of the mounted tree; then only the
    folders that are there are read.
    """
    parts = [part for part in PurePosixPath(path).parts if part != "/"]
    if ".." in parts:
        parts = []
    for depth in range(len(parts), -1, -1):
        yield base.joinpath(*parts[:depth])


def _bound(folder: Path, files: _Files) -> Bound | None:
    limit = _number(read_text(folder / files.limit))
    if limit is None:
        return None
    usage = _number(read_text(folder / files.usage)) or 0
    cache = 0
    for line in read_text(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in files.page_cache:
            cache += _number(value) or 0
    source = f"cgroup {folder / files.limit}"
    return Bound(source, limit, max(0, usage - cache))


def _number(text: str) -> int | None:
    """A count of bytes, or None for "max" and for anything else that is not a count."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
