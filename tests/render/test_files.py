"""The report file: whole or not at all, nothing left behind, no hang."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from server.render.files import OF_A_CHECKPOINT, why_unwritable, write_report


def test_a_report_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert write_report(path, "{}") is None
    assert write_report(path, '{"a": 1}') is None
    assert path.read_text() == '{"a": 1}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old")
    (tmp_path / "latest.json").symlink_to("old.json")
    assert write_report(tmp_path / "latest.json", "new") is None
    assert (tmp_path / "latest.json").is_symlink()
    assert (tmp_path / "old.json").read_text() == "new\n"


def make_folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def make_file_as_parent(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "report.json"


def make_nothing(tmp_path: Path) -> Path:
    return tmp_path / "missing" / "report.json"


def make_shard(tmp_path: Path) -> Path:
    (tmp_path / "model-00001-of-00002.safetensors").write_text("weights")
    return tmp_path / "model-00001-of-00002.safetensors"


def make_link_to_a_config(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "report.json").symlink_to("config.json")
    return tmp_path / "report.json"


def make_config_in_a_cache(tmp_path: Path) -> Path:
    (tmp_path / "1234abcd").write_text("{}")
    (tmp_path / "config.json").symlink_to("1234abcd")
    return tmp_path / "config.json"


BAD_PLACES = [
    (make_shard, OF_A_CHECKPOINT),
    (make_link_to_a_config, OF_A_CHECKPOINT),
    (make_config_in_a_cache, OF_A_CHECKPOINT),
    (make_folder, "Is a directory"),
    (make_file_as_parent, "Not a directory"),
    (make_nothing, "No such file or directory"),
]


@pytest.mark.parametrize(("make", "reason"), BAD_PLACES)
def test_a_place_that_cannot_be_written_is_a_reason(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path = make(tmp_path)
    before = contents(tmp_path)
    assert why_unwritable(path) == reason
    assert write_report(path, "{}") == reason
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, str | None]:
    return {path: path.read_text() if path.is_file() else None for path in folder.rglob("*")}


def test_a_config_that_is_not_there_yet_can_be_a_report(tmp_path: Path) -> None:
    assert why_unwritable(tmp_path / "config.json") is None


def test_a_good_place_is_not_touched_when_it_is_only_asked_about(tmp_path: Path) -> None:
    assert why_unwritable(tmp_path / "report.json") is None
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_nul_or_too_long_is_a_reason(tmp_path: Path) -> None:
    assert write_report(Path("a\0b"), "{}")
    assert write_report(tmp_path / ("x" * 300), "{}") == "File name too long"
    assert list(tmp_path.iterdir()) == []
    assert write_report(tmp_path / ("x" * 255), "{}") is None


def test_a_report_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (steps.append("flush"), flush(number)))
    monkeypatch.setattr(os, "replace", lambda *both: (steps.append("rename"), rename(*both)))
    assert write_report(tmp_path / "report.json", "{}") is None
    assert steps == ["flush", "rename"]


def test_a_failed_write_leaves_the_old_report_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    assert write_report(path, "{}") == "No space left on device"
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_mounted_file_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "termination-log"
    path.write_text("a long text that was here before")

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    assert write_report(path, "{}") is None
    assert path.read_text() == "{}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["termination-log"]


def test_a_stale_file_of_a_killed_process_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / f".report-{os.getpid()}-0.tmp").write_text("stale")
    assert write_report(tmp_path / "report.json", "{}") is None
    assert (tmp_path / "report.json").read_text() == "{}\n"


def test_a_device_is_written_to_and_stays_a_device() -> None:
    assert write_report(Path(os.devnull), "{}") is None
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert write_report(Path("/dev/full"), "{}") == "No space left on device"


def test_a_pipe_that_nobody_reads_is_a_reason_not_a_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert write_report(tmp_path / "pipe", "{}") == "No such device or address"


def test_a_pipe_that_is_read_gets_the_report(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert write_report(pipe, "{}") is None
        assert os.read(reader, 100) == b"{}\n"
    finally:
        os.close(reader)
