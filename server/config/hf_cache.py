"""The Hugging Face cache on disk, read without its library and without the network.

Layout: `models--<org>--<name>/{refs/<revision>, snapshots/<commit>/, blobs/}`; files of a snapshot
are relative links into blobs (huggingface/huggingface_hub src/huggingface_hub/constants.py and
file_download.py). Unlike that library a reference may end with white space, and a snapshot that
was fetched by commit, without a reference, is found when it is the only one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from server.config.file_bytes import read_bytes
from server.config.probe import Kind, content_of, expand_home, names_in, probe

_PREFIX = "models--"
_REF_LIMIT_BYTES = 4096
_COMMIT = r"[0-9a-f]{7,64}"
_COMMIT_SHOWN = 12
_VARIABLE = r"\$(?:(\w+)|\{(\w+)\})"


class Snapshot(NamedTuple):
    """One snapshot folder and, in words, how it was chosen."""

    folder: Path
    how: str


class Broken(NamedTuple):
    """Why a cache entry gives no snapshot: rule SD112, SD113 or SD114, and a clause about it."""

    rule: str
    message: str
    place: Path


def hub_cache(environ: Mapping[str, str]) -> Path:
    """The folder of the hub cache, as huggingface_hub decides it. It need not exist."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return _expand(environ[name], environ)
    if environ.get("HF_HOME"):
        return _expand(environ["HF_HOME"], environ) / "hub"
    caches = _expand(environ.get("XDG_CACHE_HOME") or "~/.cache", environ)
    return caches / "huggingface" / "hub"


def _expand(text: str, environ: Mapping[str, str]) -> Path:
    """`text` with variables and a leading `~` replaced; an unknown variable stays as it is."""
    replaced = re.sub(_VARIABLE, lambda match: environ.get(match[1] or match[2], match[0]), text)
    return expand_home(replaced, environ)


def entry_name(name: str) -> str:
    """The folder name of `org/name` in a cache."""
    return _PREFIX + name.replace("/", "--")


def model_name(entry: str) -> str | None:
    """The model name of an entry's folder name, or None when it is no model."""
    if not entry.startswith(_PREFIX):
        return None
    return entry.removeprefix(_PREFIX).replace("--", "/", 1)


def entries_for(root: Path, name: str) -> tuple[Path, ...]:
    """Entries of cache `root` that `name` may mean; a bare name fits any organisation."""
    if "/" in name:
        exact = root / entry_name(name)
        return (exact,) if probe(exact).kind is Kind.FOLDER else ()
    found = (n for n in names_in(root) if (model_name(n) or "").rpartition("/")[2] == name)
    return tuple(root / entry for entry in found if probe(root / entry).kind is Kind.FOLDER)


def choose_snapshot(entry: Path, revision: str | None) -> Snapshot | Broken:
    """The snapshot of `entry` that `revision` (else main) names. Never raises.

    Refused: a reference that leads nowhere or holds no commit (SD114), several snapshots with
    nothing to choose by (SD113), a revision that is not here (SD112).
    """
    reference = entry / "refs" / (revision or "main")
    kind = probe(reference).kind
    if kind is Kind.FILE:
        return _by_reference(entry, reference)
    if kind in (Kind.DANGLING, Kind.UNREADABLE):
        return Broken("SD114", f"{reference.name} in refs is {kind}", reference)
    snapshots = [n for n in names_in(entry / "snapshots") if re.fullmatch(_COMMIT, n)]
    if revision is not None:
        return _by_commit(entry, revision, snapshots)
    if len(snapshots) == 1:
        return Snapshot(entry / "snapshots" / snapshots[0], f"commit {snapshots[0]}, the only one")
    if not snapshots:
        message = f"the cache entry has no snapshot, it {content_of(entry)}"
        return Broken("SD114", message, entry / "snapshots")
    message = f"the cache entry has {len(snapshots)} snapshots and no refs/main: {_list(snapshots)}"
    return Broken("SD113", message, entry / "snapshots")


def _by_reference(entry: Path, reference: Path) -> Snapshot | Broken:
    where = reference.relative_to(entry)
    commit = _read_commit(reference)
    if commit is None:
        return Broken("SD114", f"{where} holds no commit id", reference)
    folder = entry / "snapshots" / commit
    if probe(folder).kind is not Kind.FOLDER:
        message = f"{where} names commit {commit[:_COMMIT_SHOWN]}, whose snapshot is not there"
        return Broken("SD114", message, folder)
    return Snapshot(folder, f"{where}, commit {commit}")


def _by_commit(entry: Path, revision: str, snapshots: list[str]) -> Snapshot | Broken:
    is_commit = re.fullmatch(_COMMIT, revision.lower())
    found = [name for name in snapshots if is_commit and name.startswith(revision.lower())]
    if len(found) == 1:
        return Snapshot(entry / "snapshots" / found[0], f"--revision, commit {found[0]}")
    if found:
        message = f"revision {revision} fits {len(found)} snapshots: {_list(found)}"
        return Broken("SD113", message, entry / "snapshots")
    held = f"the cache entry holds {_list(snapshots)}" if snapshots else "no snapshot is cached"
    return Broken("SD112", f"revision {revision} is not cached, {held}", entry / "snapshots")


def _read_commit(reference: Path) -> str | None:
    """The commit id that a reference holds, or None. White space around it is ignored."""
    data, _ = read_bytes(reference, _REF_LIMIT_BYTES)
    text = (data or b"").decode("ascii", "replace").strip()
    return text if re.fullmatch(_COMMIT, text) else None


def _list(commits: list[str]) -> str:
    shown = ", ".join(commit[:_COMMIT_SHOWN] for commit in commits[:5])
    return shown + (f" and {len(commits) - 5} more" if len(commits) > 5 else "")
