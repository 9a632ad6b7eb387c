"""Links between the pages lead to files that are there, and to headings that they have."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, without_blocks

ALL = (*PAGES, *sorted((ROOT / "docs").glob("*/*.md")))
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_blocks(page.read_text()), re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = sum(re.fullmatch(rf"{re.escape(plain)}(-\d+)?", a) is not None for a in found)
        found.add(f"{plain}-{number}" if number else plain)
    return found


def broken(page: Path, text: str) -> list[str]:
    """The links of `text`, taken as that of `page`, that lead nowhere."""
    wrong = []
    for link in _LINK.findall(without_blocks(text)):
        file, _, anchor = link.partition("#")
        goal = page.parent / file if file else page
        if link.startswith("https://"):
            continue
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_links_that_lead_nowhere_are_found() -> None:
    page = ROOT / "README.md"
    text = "[a](docs/none.md) [b](#the-ledger) [c](#none) [d](docs/exit-codes.md#none)"
    assert broken(page, text) == ["docs/none.md", "#none", "docs/exit-codes.md#none"]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    named = set(_LINK.findall(index))
    pages = {path.name for path in PAGES if path.parent.name == "docs"} - {"README.md"}
    assert {*pages, "rules/README.md"} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:server|tests|benchmarks|deploy|docs)/[\w./-]+)`", page.read_text())
    made_up = ("echo.py", "SD299.md")
    assert [p for p in named if not (ROOT / p).exists() and not p.endswith(made_up)] == []
