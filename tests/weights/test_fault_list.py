"""Every reported fault that a header can show, through the whole gate, without reading a weight."""

import mmap
import os
from pathlib import Path

import pytest

from server import startup
from server.findings import Severity
from server.log import Log, Refused
from server.weights.sample import materialise
from tests.boots import make_log, make_options
from tests.process import run
from tests.weights.fault_table import ROWS, Row
from tests.weights.reports import ELSEWHERE, REPORTS
from tests.weights.sparse import (
    EMBED,
    FIRST,
    HEAD,
    K_PROJ,
    Q_PROJ,
    SECOND,
    Break,
    both,
    config,
    drop,
    entry,
    make_checkpoint,
    nothing,
    point,
    resize,
    store,
    tensors_of,
)
from tests.weights.watch import watched


def check(folder: Path, log: Log | None = None) -> Log:
    """The gate on this target."""
    options = make_options(folder, check=True)
    log = log or make_log(options)
    try:
        startup.boot(options, log)
    except Refused:
        assert log.report.refused
    return log


def check_without_weights(folder: Path) -> Log:
    """The same, and proof that no weight was read, nothing mapped and nothing changed."""
    check(folder)  # imports what the refusal needs, so that the kernel's count is the gate's
    before = state_of(folder)
    log = make_log(make_options(folder))
    with watched() as reads:
        check(folder, log)
    assert state_of(folder) == before
    assert (reads.unseen_bytes, reads.mapped) == (0, 0)
    for path in folder.glob("*.safetensors"):
        if path.is_file():
            assert reads.weight_bytes(path) == 0, path
    assert not [name for name in reads.opened if name.endswith((".bin", ".pt", ".gguf"))]
    return log


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    seen = ((path.name, path.lstat()) for path in folder.iterdir())
    return {name: (status.st_size, status.st_mtime_ns) for name, status in seen}


def make_broken(folder: Path, breaks: Break) -> Path:
    breaks(make_checkpoint(folder))
    return folder


def errors(log: Log) -> list[str]:
    found = (f.rule for f in log.report.findings if f.severity is Severity.ERROR)
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_fault(tmp_path: Path, row: Row) -> None:
    log = check_without_weights(make_broken(tmp_path / "cache" / "of" / "model", row.breaks))
    assert sorted(errors(log)) == sorted(row.rules)
    assert log.report.exit_code == row.code
    told = next(f for f in log.report.findings if f.rule == row.rules[0])
    text = f"{told.message} {told.fix} {[place.pointer for place in told.locations]}"
    assert not [said for said in row.says if said not in text]
    assert row.file in {Path(place.file or "").name for place in told.locations}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_nearest_good_neighbour(tmp_path: Path, row: Row) -> None:
    log = check_without_weights(make_broken(tmp_path / "cache" / "of" / "model", row.neighbour))
    assert (errors(log), log.report.exit_code) == ([], 0)


def test_the_table_and_the_places_beside_it_cover_all_reports() -> None:
    covered = {number for row in ROWS for number in row.reports}
    assert not covered & ELSEWHERE.keys()
    assert covered | ELSEWHERE.keys() == REPORTS.keys()


@pytest.mark.parametrize(
    ("change", "rule", "says"),
    [
        (config(tie_word_embeddings=True), "SD416", HEAD),
        (config(dtype="float32"), "SD404", "stored as bfloat16"),
        (nothing, None, ""),
        (config(dtype=None), None, ""),
    ],
)
def test_a_checkpoint_that_is_told_about_and_accepted(
    tmp_path: Path, change: Break, rule: str | None, says: str
) -> None:
    log = check_without_weights(make_broken(tmp_path / "model", change))
    assert log.report.exit_code == 0
    assert [f.rule for f in log.report.findings] == ([rule] if rule else [])
    assert all(says in f.message for f in log.report.findings)


def test_all_faults_of_all_files_in_one_pass(tmp_path: Path) -> None:
    """Config, index, both shards, and tensors in a shard that is itself refused."""
    folder = make_broken(
        tmp_path / "model",
        both(
            config(tie_word_embeddings="no"),
            store(K_PROJ, "BF16", [8, 8], SECOND),
            store("model.layers.0.extra", "BF16", [2], SECOND),
            drop(HEAD, SECOND),
            entry(Q_PROJ, dtype="BF17"),
            entry("model.layers.0.mlp.up_proj.weight", shape=[1]),
            resize(FIRST, -3),
            resize(SECOND, 5),
            point(EMBED, "../up.safetensors"),
        ),
    )
    log = check(folder)
    assert errors(log) == ["SD107"]  # without a config there is nothing to compare with
    config(tie_word_embeddings=False)(folder)
    log = check_without_weights(folder)
    assert [f.rule for f in log.report.findings if f.severity is Severity.ERROR] == [
        *("SD413", "SD407", "SD407", "SD408", "SD408"),
        *("SD402", "SD403", "SD401"),
    ]
    messages = [f.message for f in log.report.findings]
    assert sum(Q_PROJ in message for message in messages) == 1
    assert not [m for m in messages if EMBED in m and "lacks" in m]


def test_both_models_are_told_in_one_pass(tmp_path: Path) -> None:
    """A shard of the target and the draft's only file."""
    draft, target = (materialise(f"sample:{name}", tmp_path) for name in ("dflash", "qwen3"))
    resize("model.safetensors", -1)(draft)
    (target / "model-00002-of-00003.safetensors").unlink()
    log = make_log(options := make_options(target, draft, check=True))
    with pytest.raises(Refused):
        startup.boot(options, log)
    assert [(f.rule, f.locations[0].role) for f in log.report.findings] == [
        ("SD406", "target"),
        ("SD408", "draft"),
    ]


def test_what_an_unreadable_shard_holds_is_not_called_missing(tmp_path: Path) -> None:
    """Its tensors are promised; one that neither it nor the index promises is missing."""
    folder = make_broken(tmp_path / "model", drop(HEAD, SECOND))
    (folder / FIRST).write_bytes(b"")
    log = check(folder)
    assert errors(log) == ["SD408", "SD402"]
    assert "lacks 1 of 25 tensors" in log.report.findings[-1].message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_shard_without_permission_is_not_called_missing(tmp_path: Path) -> None:
    folder = make_broken(tmp_path / "model", nothing)
    (folder / SECOND).chmod(0)
    log = check(folder)
    assert (errors(log), log.report.exit_code) == (["SD414"], 66)
    assert "Permission denied" in log.report.findings[0].message


def test_the_header_pass_after_a_fault_admits_nothing(tmp_path: Path) -> None:
    """A boot that is not --check ends there as well."""
    folder = make_broken(tmp_path / "model", resize(FIRST, 1))
    log = make_log(options := make_options(folder))
    with pytest.raises(Refused):
        startup.boot(options, log)
    assert errors(log) == ["SD408"]
    assert [phase.name for phase in log.report.phases][-1] == "tensor headers"


def test_the_watch_sees_a_weight_that_is_read(tmp_path: Path) -> None:
    """The proof itself: it is not blind."""
    path = make_checkpoint(tmp_path) / FIRST
    with watched() as reads, path.open("rb") as file:
        os.pread(file.fileno(), 64, path.stat().st_size - 64)
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ).close()
    assert (reads.weight_bytes(path), reads.unseen_bytes, reads.mapped) == (64, 0, 1)
    with watched() as reads:
        assert len(path.read_bytes()) == path.stat().st_size
    assert reads.unseen_bytes == path.stat().st_size


@pytest.mark.parametrize("row", ROWS[::9], ids=lambda row: row.fault)
def test_the_process_says_it_without_a_traceback(tmp_path: Path, row: Row) -> None:
    folder = make_broken(tmp_path / "cache" / "of" / "model", row.breaks)
    done = run("--target", str(folder), "--check", cache=tmp_path)
    assert done.code == row.code
    assert {line[6:11] for line in done.error_lines} == set(row.rules)
    assert "Traceback" not in done.stderr
    assert done.verdict_line.startswith("refused")
    assert "target not loaded, device not touched" in done.verdict_line


def test_a_small_header_brings_no_weight_with_it(tmp_path: Path) -> None:
    """A file whose whole header is shorter than what foreign files are recognised by."""
    folder = make_broken(tmp_path / "model", nothing)
    with tensors_of(folder / FIRST) as tensors:
        kept = dict(list(tensors.items())[:1])
        tensors.clear()
        tensors.update(kept)
    assert (folder / FIRST).stat().st_size > 1024
    assert "SD410" in errors(check_without_weights(folder))
