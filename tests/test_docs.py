"""The documents say what the code does: flags, rules, exit codes, commands."""

import re
from pathlib import Path

import pytest

from server.config.families import known_families
from server.config.families.model import UNKNOWN
from server.config.rules import RULES
from server.findings import EXIT_PRIORITY, ExitCode
from server.flags import BY_SPELLING

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMPLAINTS = [
    (int(number), elsewhere, here, shown)
    for number, elsewhere, here, shown in re.findall(
        r"^\| (\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$",
        (ROOT / "docs/complaints.md").read_text(),
        re.M,
    )
]
NOT_OURS = {"--local-dir", "--nproc-per-node", "--rounds", "--runs"}
MADE_UP = {"SD299"}  # the example of docs/add-a-rule.md


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_every_flag_and_rule_that_a_document_names_exists(path: Path) -> None:
    text = path.read_text()
    flags = set(re.findall(r"(?<![\w*-])--[a-z][a-z-]+", text)) - NOT_OURS
    assert flags <= set(BY_SPELLING)
    assert set(re.findall(r"\bSD\d{3}\b", text)) - MADE_UP <= set(RULES)


def test_the_exit_codes_are_documented_in_the_order_that_decides() -> None:
    order = ", ".join(str(int(code)) for code in EXIT_PRIORITY)
    text = (ROOT / "docs/exit-codes.md").read_text()
    assert f"the first of {order}" in text
    for code in ExitCode:
        assert f"| {int(code)} |" in text


def test_the_readme_names_every_family_with_its_schemas() -> None:
    rows = re.findall(r"^\| ([^|]*`[^|]*) \| ([^|]*`[^|]*) \| (served|refused)", README, re.M)
    told = {
        (family, schema, verdict == "served")
        for families, schemas, verdict in rows
        for family in re.findall("`(.*?)`", families)
        for schema in re.findall("`(.*?)`", schemas)
    }
    known = {(f.id, f.schema_id, f.served) for f in known_families() if f.id != UNKNOWN}
    assert told == known


def test_every_known_complaint_has_its_row_and_its_public_report() -> None:
    assert sorted(number for number, *_ in COMPLAINTS) == list(range(1, 45))
    assert all("](https://github.com/" in elsewhere for _, elsewhere, *_ in COMPLAINTS)


@pytest.mark.parametrize("row", COMPLAINTS, ids=lambda row: str(row[0]))
def test_what_is_done_about_a_complaint_is_shown_by_tests_that_exist(
    row: tuple[int, str, str, str],
) -> None:
    _, _, here, shown = row
    named = re.findall("`([^`]+)`", shown)
    assert named or here.startswith(("not served here: ", "needs a GPU"))
    for name in named:
        path, _, function = name.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.M), name
