"""docs/rules/ holds one page for each rule and the index, as they are made now."""

import re
from pathlib import Path
from tempfile import gettempdir

from server.config.rules import RULES
from tests.rules.messages import MESSAGES, messages
from tests.rules.pages import COMMAND, FOLDER, INDEX, pages, stale, write


def test_no_page_is_stale() -> None:
    assert stale(FOLDER, pages()) == [], f"run: {COMMAND}"


def test_no_message_changes_in_any_format_unseen() -> None:
    assert MESSAGES.read_text() == messages(), f"run: {COMMAND}"
    assert [line[:5] for line in messages().splitlines() if line.startswith("SD")] == sorted(RULES)


def test_there_is_one_page_for_each_rule_and_an_index() -> None:
    there = sorted(path.name for path in FOLDER.iterdir())
    assert there == sorted([INDEX, *(f"{rule}.md" for rule in RULES)])


def test_the_index_has_each_rule_once() -> None:
    rows = re.findall(r"^\| \[(SD\d{3})\]\(\1\.md\) \|", pages()[INDEX], re.MULTILINE)
    assert rows == sorted(RULES)


def test_pages_name_no_place_of_this_machine() -> None:
    for name, text in pages().items():
        for place in (gettempdir(), str(Path.home()), str(FOLDER)):
            assert not re.search(rf"(?<![\w.]){re.escape(place)}\b", text), f"{name}: {place}"


def test_links_lead_to_pages_and_headings() -> None:
    made = pages()
    headings = set(re.findall(r"^#+ (.+)$", made[INDEX], re.MULTILINE))
    for name, text in made.items():
        for target in re.findall(r"\]\(([^):]+)\)", text):
            file, _, heading = target.partition("#")
            assert (FOLDER / file).exists(), f"{name}: {target}"
            assert not heading or heading in headings, f"{name}: {target}"


def test_a_changed_a_missing_and_a_left_over_page_are_stale(tmp_path: Path) -> None:
    made = {"a.md": "a", "b.md": "b", "c.md": "c"}
    write(tmp_path, made)
    assert stale(tmp_path, made) == []
    (tmp_path / "a.md").write_text("A")
    (tmp_path / "b.md").unlink()
    (tmp_path / "d.md").write_text("d")
    assert stale(tmp_path, made) == ["a.md", "b.md", "d.md"]
    write(tmp_path, made)
    assert stale(tmp_path, made) == []
