"""The boot's list of phases: nothing runs early, a bug is told in one line, signals wait."""

import io
import json
import os
from pathlib import Path

import pytest

from server import process, startup
from server.process import main
from tests.boots import make_log, make_options


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(process.Interrupts, "listen", lambda _: None)
    return tmp_path


def test_phases_run_in_order_and_stop_at_the_gate_for_check() -> None:
    log = make_log()
    log.report.settings |= make_log(make_options("x")).report.settings
    assert startup.boot(make_options("sample:qwen3", "sample:dflash", check=True), log) is None
    names = [phase.name for phase in log.report.phases]
    assert names == ["draft config", "servable", "target config", "tensor headers"]


def test_a_bug_is_one_line_and_its_traceback_is_saved(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explode(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("server.gate.read_draft_config", explode)
    code = main(["--target", "sample:qwen3", "--draft", "sample:dflash"])
    told = capsys.readouterr().err
    assert code == 70
    assert told.splitlines()[2].startswith("error[SD608]")
    assert "KeyError in phase draft config" in told
    assert "Traceback" not in told
    (saved,) = cache.glob("crash-*.txt")
    assert "explode" in saved.read_text()


def test_a_traceback_is_not_written_through_a_link(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explode(*_: object) -> None:
        raise KeyError("surprise")

    (cache / "diary").write_text("dear diary")
    (cache / f"crash-{os.getpid()}.txt").symlink_to("diary")
    monkeypatch.setattr("server.gate.read_draft_config", explode)
    assert main(["--target", "sample:qwen3", "--draft", "sample:dflash"]) == 70
    assert "no traceback saved: a link is in its place" in capsys.readouterr().err.replace("\n", "")
    assert (cache / "diary").read_text() == "dear diary"


@pytest.mark.parametrize(
    ("renderer", "form", "written"),
    [
        ("server.telling.render_summary", "text", True),
        ("server.render.lines.render_verdict", "github", True),
        ("server.render.json.report_json", "json", False),
    ],
)
def test_a_bug_in_telling_the_verdict_is_told_and_not_accepted(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    renderer: str,
    form: str,
    written: bool,
) -> None:
    def explode(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(renderer, explode)
    check = ["--target", "sample:qwen3", "--check", "--output-format", form]
    assert main([*check, "--report-file", str(cache / "report")]) == 70
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    assert told.err.count("error[SD608] internal-error: KeyError in phase verdict") == 1
    assert told.err.rstrip().endswith("exit 70")
    assert (cache / "report").exists() is written
    if written:
        assert json.loads((cache / "report").read_text())["exit_code"] == 70


def test_json_lines_are_told_while_the_boot_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(*_: object) -> None:
        seen.append(capsys.readouterr().out)
        raise KeyError("surprise")

    monkeypatch.setattr("server.pairing.read_target_config", look)
    main(["--target", "x", "--draft", "sample:dspine", "--output-format", "jsonl"])
    events = [json.loads(line) for line in seen[0].splitlines()]
    assert [event["event"] for event in events] == [
        "start", "phase_start", "phase_end", "phase_start", "finding", "phase_end", "phase_start",
    ]  # fmt: skip
    assert events[4]["rule"] == "SD306"
    rest = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in rest] == ["phase_end", "finding", "verdict"]
    assert rest[-1]["exit_code"] == 78


def test_json_is_the_only_thing_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--target", "x", "--draft", "sample:dspine", "--output-format", "json"])
    out, err = capsys.readouterr()
    assert (code, err) == (78, "")
    assert json.loads(out)["verdict"] == "refuse"


def test_answers_go_to_standard_output_and_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in ((["--version"], "draftgate"), (["--explain", "SD306"], "DSpine")):
        assert main(arguments) == 0
        assert words in capsys.readouterr().out


def test_a_process_without_standard_streams_still_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    monkeypatch.setattr("sys.stdout", None)
    assert main(["--target", "x", "--draft", "sample:dspine"]) == 78


@pytest.mark.parametrize("more", [[], ["--concise"]])
def test_a_stream_that_is_full_does_not_change_the_code(
    monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    assert main(["--target", "x", "--draft", "sample:dspine", *more]) == 78
    assert main(["--target", "sample:qwen3", "--check", *more]) == 0


@pytest.mark.parametrize("form", ["json", "jsonl", "github", "junit"])
def test_a_report_that_was_lost_is_not_an_acceptance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    check = ["--target", "sample:qwen3", "--check", "--output-format", form]
    assert main(check) == 66
    assert "error[SD707]" in capsys.readouterr().err


def test_an_unwritable_report_file_does_not_come_before_the_refusal(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--target", "x", "--draft", "sample:dspine", "--report-file", str(cache)])
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert code == 78
    assert errors[0].startswith("error[SD306]")
    assert any(line.startswith("error[SD707]") for line in errors)
