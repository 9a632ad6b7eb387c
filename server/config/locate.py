"""Where a checkpoint lies: a path, or a name that a local folder or the model cache knows.

Nothing is downloaded. In this order, the first that is there decides: the path as given,
`<model_dir>/<org>/<name>`, `<model_dir>/<name>`, a cache entry in `<model_dir>`, an entry of the
Hugging Face cache.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from server.config import locate_refusals as refuse
from server.config.hf_cache import Broken, Snapshot, choose_snapshot, entries_for, hub_cache
from server.config.locate_refusals import Search
from server.config.probe import Kind, Probe, expand_home, probe
from server.findings import Finding, Outcome, outcome_by_rule, outcome_of

_CONFIG = "config.json"
_NAME = r"(?:[A-Za-z0-9_][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}"
_REVISION = r"[\w-][\w.-]{0,95}(?:/[\w-][\w.-]{0,95}){0,3}"
_NAME_RULES = ("SD112", "SD113", "SD114")


class Places(NamedTuple):
    """Where names are looked up. `revision` picks a branch, tag or commit of a cache entry.

    A leading `~` of `model_dir` is expanded here, since a shell leaves `--model-dir=~/x` alone.
    """

    model_dir: Path | None = None
    revision: str | None = None
    environ: Mapping[str, str] = os.environ

    @property
    def models(self) -> Path | None:
        """The model folder, `~` expanded."""
        return None if self.model_dir is None else expand_home(str(self.model_dir), self.environ)

    def caches(self) -> Iterator[tuple[Path, str]]:
        """Folders that may hold cache entries, each with its name for people."""
        if self.models is not None:
            yield self.models, "cache entry in --model-dir"
        yield hub_cache(self.environ), "Hugging Face cache"


class Checkpoint(NamedTuple):
    """A checkpoint that was found. `folder` is None when only a bare config file was given.

    `how` says in words what decided.
    """

    role: str
    asked: str
    config_path: Path
    folder: Path | None
    how: str


def locate(role: str, asked: str, places: Places) -> tuple[Checkpoint | None, Outcome]:
    """Find the checkpoint that `asked` means. Never raises.

    Refused: SD101 no config.json there, SD102 not accessible, SD112 unknown name, SD113
    ambiguous name, SD114 broken cache entry. A refusal lists every place that was looked at.
    """
    name = asked.rstrip("/")
    search = Search(
        role, asked, name if re.fullmatch(_NAME, name, re.ASCII) else None, places.revision, []
    )
    found = _find(search, places)
    if isinstance(found, Finding):
        return None, outcome_of(found.rule, (found,))
    return found, outcome_by_rule(_NAME_RULES if search.name else ())


def _find(search: Search, places: Places) -> Checkpoint | Finding:
    if places.revision is not None and not re.fullmatch(_REVISION, places.revision, re.ASCII):
        return refuse.bad_revision(search)
    path = expand_home(search.asked, places.environ)
    found = _at_path(search, path, places) if search.asked else None
    if found is None and search.name is not None:
        found = _by_name(search, search.name, places)
    if found is not None:
        return found
    if search.name is None:
        return refuse.no_such_path(search, path)
    return refuse.unknown_name(search, search.name, places.models, hub_cache(places.environ))


def _at_path(search: Search, path: Path, places: Places) -> Checkpoint | Finding | None:
    """`asked` as a path; None when nothing is there."""
    there = search.look(path)
    if there.kind is Kind.ABSENT:
        return None
    if there.kind is Kind.FILE:
        folder = path.parent if path.name == _CONFIG else None
        return Checkpoint(search.role, search.asked, path, folder, f"file{_unused(search, places)}")
    if there.kind is Kind.FOLDER:
        return _from_folder(search, path, f"folder{_unused(search, places)}")
    return _inaccessible(search, path, there)


def _by_name(search: Search, name: str, places: Places) -> Checkpoint | Finding | None:
    """`name` as a folder of the model folder, or as a cache entry; None when it is unknown."""
    models = places.models
    if models is not None:
        for folder in dict.fromkeys((models / name, models / name.rpartition("/")[2])):
            there = search.look(folder)
            if there.kind is Kind.FOLDER:
                return _from_folder(
                    search, folder, f"folder in --model-dir{_unused(search, places)}"
                )
            if there.kind in (Kind.DANGLING, Kind.UNREADABLE):
                return _inaccessible(search, folder, there)
    for root, label in places.caches():
        entries = entries_for(root, name)
        if len(entries) > 1:
            return refuse.several_entries(search, entries)
        search.look(entries[0] if entries else refuse.entry_pattern(root, name))
        if entries:
            return _from_entry(search, entries[0], label)
    return None


def _from_entry(search: Search, entry: Path, label: str) -> Checkpoint | Finding:
    chosen = choose_snapshot(entry, search.revision)
    if isinstance(chosen, Broken):
        return refuse.broken_entry(search, entry, chosen)
    return _from_folder(search, chosen.folder, f"{label}: {entry.name}, {chosen.how}")


def _from_folder(search: Search, folder: Path, how: str) -> Checkpoint | Finding:
    config = folder / _CONFIG
    there = search.look(config)
    if there.kind in (Kind.FILE, Kind.FOLDER):  # a folder of that name is the reader's to refuse
        return Checkpoint(search.role, search.asked, config, folder, how)
    if there.kind is not Kind.ABSENT:
        return _inaccessible(search, config, there)
    if folder.name.startswith("models--") and probe(folder / "snapshots").kind is Kind.FOLDER:
        return _from_entry(search, folder, "cache entry given as a path")
    return refuse.no_config(search, folder)


def _inaccessible(search: Search, path: Path, there: Probe) -> Finding:
    if there.kind is Kind.DANGLING:
        return refuse.dangling(search, path, there.detail)
    return refuse.unreadable(search, path, there.detail)


def _unused(search: Search, places: Places) -> str:
    """What a folder or file hides: a cache entry of the same name, and the revision."""
    told = ""
    for root, label in places.caches() if search.name else ():
        entries = entries_for(root, search.name or "")
        if len(entries) == 1:
            chosen = choose_snapshot(entries[0], search.revision)
            what = chosen.how if isinstance(chosen, Snapshot) else "broken"
            told += f"; not used: {label}, {entries[0].name} ({what})"
    if search.revision is not None:
        told += f"; --revision {search.revision} applies to cache entries only"
    return told
