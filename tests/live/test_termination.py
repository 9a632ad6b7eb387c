"""What Kubernetes shows of a boot that ended: rule, message and fix, within its limit."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.rules import finding
from server.live.termination import MAX_BYTES, leave_message, message
from server.report import Report
from tests.process import run

DSPINE = ("--target", "nowhere", "--draft", "sample:dspine")


def refused(*messages: str) -> Report:
    return Report(findings=[finding("SD201", text, fix=f"{text} fix") for text in messages])


def test_it_holds_rule_message_and_fix_of_each_error_and_the_exit_code() -> None:
    report = refused("one", "two")
    report.findings.append(finding("SD611", "a warning"))
    assert message(report).decode().splitlines() == [
        "error[SD201] hidden-size-mismatch: one",
        "  fix: one fix",
        "error[SD201] hidden-size-mismatch: two",
        "  fix: two fix",
        "exit 78",
    ]


def test_what_does_not_fit_is_counted() -> None:
    text = message(refused(*["m" * 500] * 20)).decode()
    kept = text.count("error[")
    assert 0 < kept < 20
    assert text.endswith(f"and {20 - kept} more\nexit 78")


@given(st.lists(st.text(min_size=1).map(lambda text: text * 400), min_size=1, max_size=3))
def test_it_is_short_valid_text_whatever_the_findings_hold(texts: list[str]) -> None:
    data = message(refused(*texts))
    assert len(data) <= MAX_BYTES
    assert data.decode().startswith("error[SD201] ")
    assert data.decode().endswith("exit 78")


def test_the_place_of_kubernetes_is_written_where_it_is(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("what was there before, which is longer than what comes, " * 9)
    folder = tmp_path.stat().st_mtime_ns
    assert leave_message(refused("one"), None, there) is None
    assert there.read_text().endswith("exit 78")
    assert leave_message(refused("one"), None, missing) is None
    assert tmp_path.stat().st_mtime_ns == folder, "nothing was made beside it"


def test_a_boot_that_succeeds_says_nothing(tmp_path: Path) -> None:
    assert leave_message(Report(), tmp_path / "log") is None
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_asked_for_and_cannot_be_written_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody reads it
    for path in (tmp_path, tmp_path / "no" / "file", tmp_path / "pipe", Path("nul\0byte")):
        assert leave_message(refused("one"), path)
        assert leave_message(refused("one"), None, path) is None


def test_a_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert leave_message(refused("one"), tmp_path / "config.json")
    assert (tmp_path / "config.json").read_text() == "{}"


@pytest.mark.parametrize("wrong", [(), ("--max-num-seqs", "none")])
def test_a_refusal_leaves_its_message(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    path = tmp_path / "message"
    env = {"SERVER_TERMINATION_LOG": str(path)}
    done = run(*DSPINE, *wrong, cache=tmp_path, env=env)
    told = path.read_text()
    assert told.startswith("error[SD704]" if wrong else "error[SD306] dspine-not-served: ")
    assert "  fix: " in told
    assert told.endswith(f"exit {done.code}")


def test_a_message_that_cannot_be_left_changes_no_exit_code(tmp_path: Path) -> None:
    done = run(*DSPINE, "--termination-log", str(tmp_path / "no" / "file"), cache=tmp_path)
    assert done.code == 78
    assert "the termination message cannot be written" in done.verdict_line
    assert "Traceback" not in done.stderr
