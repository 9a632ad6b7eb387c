"""Refusals of the checkpoint search. Each lists the places looked at and a command that helps."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from server.config.hf_cache import Broken, entry_name, model_name
from server.config.probe import Kind, Probe, content_of, names_in, probe
from server.config.rules import finding
from server.config.values import clip, shorten
from server.findings import Finding, Location

_NEAR_SHOWN = 5
_NAMES_COMPARED = 2000
# Who publishes a bare name, where the name alone tells it.
_PUBLISHERS = (
    (r"Qwen3(\.\d)?-[\w.]+B(-A\d+B)?-DFlash.*", "z-lab"),
    (r"(dflash|dspark)_(qwen3|gemma4)_\w+", "deepseek-ai"),
    (r"Qwen3(\.\d)?-[\d.]+B(-A\d+B)?(-(Base|Instruct|Thinking|FP8|AWQ|\d{4}))*", "Qwen"),
)


class Search(NamedTuple):
    """One search: what was asked, and the places looked at so far.

    `name` is `asked` where it can be a model name (`org/name` or `name`), else None.
    """

    role: str
    asked: str
    name: str | None
    revision: str | None
    looked: list[tuple[Path, Kind]]

    def look(self, path: Path) -> Probe:
        """Look at `path` and remember that."""
        there = probe(path)
        self.looked.append((path, there.kind))
        return there

    @property
    def subject(self) -> str:
        """How messages name what was asked."""
        return f"{self.role} {shorten(self.asked)}"

    def locations(self) -> tuple[Location, ...]:
        """The flag and every place looked at."""
        flag = Location(self.role, flag=f"--{self.role}", value=clip(self.asked))
        places = (
            Location("looked in", file=str(path), has_value=False, source=kind.value)
            for path, kind in self.looked
        )
        return flag, *places


def no_such_path(search: Search, path: Path) -> Finding:
    """SD101: a path, not a name, and nothing is there."""
    if not search.asked:
        fix = f"--{search.role} PATH, or --{search.role} ORG/NAME of the local model cache"
        return _finding("SD101", search, f"{search.role} is an empty path", fix)
    near = [str(path.parent / name) for name in _near(path.name, names_in(path.parent))]
    fix = (
        _use(search, near) if near else "give the folder that holds config.json, or the file itself"
    )
    if "://" in search.asked:
        fix = "give ORG/NAME of a cached model, or a folder; nothing is downloaded at boot"
    return _finding("SD101", search, f"{search.subject} does not exist{_told(near)}", fix)


def unknown_name(search: Search, name: str, model_dir: Path | None, hub: Path) -> Finding:
    """SD112: no place knows the name."""
    name = model_name(name) or name  # the folder name of a cache entry means its model
    roots = [root for root in (model_dir, hub) if root is not None]
    near = [n for n in _near(name, _known(model_dir, hub)) if _is_there(n, roots)]
    message = f"{search.subject} is in none of {len(search.looked)} places{_told(near)}"
    fetch = _fetch(search, name, model_dir)
    fix = f"{_use(search, near)}; or {fetch}" if near else fetch
    return _finding("SD112", search, message, fix)


def bad_revision(search: Search) -> Finding:
    """SD112: a revision that no cache entry can have."""
    message = f"revision {shorten(search.revision)} is not a branch, tag or commit"
    flag = Location("setting", flag="--revision", value=clip(search.revision))
    return finding("SD112", message, flag, fix="--revision main, or the commit id of a snapshot")


def several_entries(search: Search, entries: Iterable[Path]) -> Finding:
    """SD113: a bare name that several organisations have."""
    names = [model_name(entry.name) or entry.name for entry in entries]
    search.looked.extend((entry, Kind.FOLDER) for entry in entries)
    message = f"{search.subject} fits {len(names)} cache entries: {', '.join(names)}"
    return _finding("SD113", search, message, _use(search, names))


def broken_entry(search: Search, entry: Path, broken: Broken) -> Finding:
    """SD112, SD113 or SD114, as the cache entry says."""
    if broken.place not in (path for path, _ in search.looked):
        search.look(broken.place)
    if broken.rule == "SD113":
        commits = " or ".join(names_in(entry / "snapshots")[:_NEAR_SHOWN])
        fix = f"--revision with one of the commits: {commits}"
    else:
        fix = _fetch(search, model_name(entry.name) or "", None)
    return _finding(broken.rule, search, f"{search.subject}: {broken.message}", fix)


def no_config(search: Search, folder: Path) -> Finding:
    """SD101, or SD114 for a snapshot of the cache: the folder has no config.json."""
    message = f"{search.role} folder {folder} has no config.json, it {content_of(folder)}"
    cached = _cached_name(folder)
    if cached is not None:
        return _finding("SD114", search, message, _fetch(search, cached, None))
    near = [str(folder / name) for name in names_in(folder) if name.lower() == "config.json"]
    near += [str(path.parent) for path in _configs_below(folder)]
    return _finding("SD101", search, message, _use(search, near) if near else None)


def dangling(search: Search, path: Path, link: str) -> Finding:
    """SD114 for a link into the blobs of a cache that is not mounted, else SD101."""
    message = f"{search.role} {path} is a link to {shorten(link)}, which is not there"
    if "blobs" in Path(link).parts:
        fix = "mount the whole cache folder, blobs included, not the snapshot alone"
        cached = _cached_name(path.parent)
        if cached is not None:
            fix += f"; or fetch it again: {_fetch(search, cached, None)}"
        return _finding("SD114", search, message, fix)
    return _finding("SD101", search, message, f"restore {shorten(link)}, or give another folder")


def unreadable(search: Search, path: Path, reason: str) -> Finding:
    """SD102: the system does not let this process look."""
    return _finding("SD102", search, f"{search.role} {path} is not accessible: {reason}", None)


def entry_pattern(root: Path, name: str) -> Path:
    """Where a cache entry of `name` would be; a bare name fits any organisation."""
    return root / (entry_name(name) if "/" in name else f"models--*--{name}")


def _finding(rule: str, search: Search, message: str, fix: str | None) -> Finding:
    return finding(rule, message, *search.locations(), fix=fix)


def _use(search: Search, choices: list[str]) -> str:
    return " or ".join(f"--{search.role} {choice}" for choice in choices)


def _told(near: list[str]) -> str:
    return f"; near names: {', '.join(near)}" if near else ""


def _fetch(search: Search, name: str, model_dir: Path | None) -> str:
    """The command that fetches `name` on a machine with a network."""
    if "/" not in name:
        publisher = next((org for form, org in _PUBLISHERS if re.fullmatch(form, name)), None)
        if publisher is None:
            return f"give ORG/NAME or a folder; `hf download ORG/{name}` fetches one"
        name = f"{publisher}/{name}"
    command = f"hf download {name}"
    if search.revision is not None:
        return f"{command} --revision {search.revision}"
    if model_dir is not None:
        from shlex import quote

        command += f" --local-dir {quote(str(model_dir / name.rpartition('/')[2]))}"
    return command


def _known(model_dir: Path | None, hub: Path) -> list[str]:
    """Names of models in the model folder and in the cache."""
    names = [] if model_dir is None else list(names_in(model_dir))
    names = [name for name in names if not name.startswith((".", "models--"))]
    entries = (*(names_in(model_dir) if model_dir else ()), *names_in(hub))
    return names + [name for name in map(model_name, entries) if name is not None]


def _is_there(name: str, roots: Iterable[Path]) -> bool:
    """True for a folder of that name, or a cache entry of it, below one of `roots`."""
    paths = (root / folder for root in roots for folder in (name, entry_name(name)))
    return any(probe(path).kind is Kind.FOLDER for path in paths)


def _near(asked: str, names: Iterable[str]) -> list[str]:
    """Names that differ from `asked` in case only, else the most similar ones."""
    listed = list(dict.fromkeys(names))[:_NAMES_COMPARED]
    keys = {name: (name.lower(), name.lower().rpartition("/")[2]) for name in listed}
    wanted = asked.lower()
    last = wanted.rpartition("/")[2]
    same = [name for name, key in keys.items() if wanted in key or last == key[1]]
    if same or len(asked) > 200:
        return same[:_NEAR_SHOWN]
    from difflib import get_close_matches

    close = set(get_close_matches(last, [key[1] for key in keys.values()], n=_NEAR_SHOWN))
    return [name for name, key in keys.items() if key[1] in close][:_NEAR_SHOWN]


def _cached_name(folder: Path) -> str | None:
    """The model name when `folder` is a snapshot of a cache entry."""
    is_snapshot = folder.parent.name == "snapshots"
    return model_name(folder.parent.parent.name) if is_snapshot else None


def _configs_below(folder: Path) -> list[Path]:
    """config.json files one level below `folder`, at most five."""
    below = (folder / name / "config.json" for name in names_in(folder)[:_NAMES_COMPARED])
    found = (path for path in below if probe(path).kind is Kind.FILE)
    return [path for path, _ in zip(found, range(_NEAR_SHOWN), strict=False)]
