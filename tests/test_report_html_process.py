"""`--report-html`: written whatever the outcome, whole or not at all."""

import json
from pathlib import Path

import pytest

from tests.process import run

REFUSED = ("--draft", "sample:dspine", "--target")
HOSTILE = "<img src=x onerror=alert(1)>"


def test_the_page_of_a_refusal_names_a_hostile_target_as_text(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run(*REFUSED, HOSTILE, "--report-html", str(page), cache=tmp_path)
    assert done.code == 78
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    assert "<img" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "error[SD306]" in text
    assert not list(tmp_path.glob(".report-*"))


def test_a_page_is_written_for_a_command_line_that_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("--bogus", "--report-html", str(page), cache=tmp_path)
    assert done.code == 2
    assert "error[SD703]" in page.read_text()


@pytest.mark.parametrize("bad", ["--report-html", "--report-file"])
def test_of_two_files_the_one_that_can_be_written_is(tmp_path: Path, bad: str) -> None:
    """And it tells of the other one."""
    paths = {"--report-html": tmp_path / "page.html", "--report-file": tmp_path / "report.json"}
    paths[bad] = tmp_path / "missing" / "file"
    files = [part for flag, path in paths.items() for part in (flag, str(path))]
    done = run("--target", "sample:qwen3", "--check", *files, cache=tmp_path)
    assert done.code == 66
    assert [line[:12] for line in done.error_lines] == ["error[SD707]"]
    (good,) = (path for flag, path in paths.items() if flag != bad)
    assert "SD707" in good.read_text()


def test_a_page_that_fails_at_the_end_is_in_the_json(tmp_path: Path) -> None:
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    page.symlink_to(page)  # nothing can be written through a link to itself
    files = ("--report-html", str(page), "--report-file", str(report))
    done = run("--bogus", *files, cache=tmp_path)
    assert done.code == 2
    assert "SD707" in [found["rule"] for found in json.loads(report.read_text())["diagnostics"]]
