"""Folders and cache entries for the tests of `server.config.locate`."""

from pathlib import Path

from server.config.locate import Checkpoint, Places, locate
from server.findings import CheckStatus, Finding

COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
OTHER = "0123456789abcdef0123456789abcdef01234567"


def make_folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).write_text("{}")
    return path


def make_entry(root: Path, name: str, *commits: str, ref: str | None = None) -> Path:
    """A cache entry in the real layout: snapshot files are links into blobs."""
    entry = root / f"models--{name.replace('/', '--')}"
    (entry / "blobs").mkdir(parents=True)
    for commit in commits:
        snapshot = make_folder(entry / "snapshots" / commit)
        blob = entry / "blobs" / f"blob-{commit}"
        blob.write_text("{}")
        (snapshot / "config.json").symlink_to(f"../../blobs/{blob.name}")
    if ref is not None:
        make_folder(entry / "refs")
        (entry / "refs" / "main").write_text(ref)
    return entry


def find(asked: str | Path, places: Places, role: str = "target") -> Checkpoint:
    found, outcome = locate(role, str(asked), places)
    assert found is not None, [f.message for f in outcome.findings]
    assert not outcome.findings
    assert all(check.status is CheckStatus.PASS for check in outcome.checks)
    return found


def refusal(asked: str | Path, places: Places, role: str = "target") -> Finding:
    found, outcome = locate(role, str(asked), places)
    assert found is None
    (finding,) = outcome.findings
    assert [(c.rule, c.status) for c in outcome.checks] == [(finding.rule, CheckStatus.FAIL)]
    return finding


def looked_in(finding: Finding) -> list[str]:
    return [str(place.file) for place in finding.locations if place.role == "looked in"]


def with_revision(places: Places, revision: str) -> Places:
    return Places(places.model_dir, revision, places.environ)


def with_model_dir(places: Places, model_dir: Path) -> Places:
    return Places(model_dir, places.revision, places.environ)
