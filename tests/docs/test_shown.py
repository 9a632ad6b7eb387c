"""The comparison of what a page shows with what is printed finds what differs."""

from typing import Any

import pytest

from tests.docs.shown import missing_words, unlike

PRINTED = """error[SD208] some-name: it is 8,
    not 7
  draft  /tmp/x/samples/v1/dflash/config.json  #/block_size = 8
  A  runtime   162760704  155.22 MiB   +18788352  17.92 MiB
  BCDEF\u2593\u2593G\u2592\u2592
refused: 1 error; target not loaded; 0.32 s; exit 78
"""
REPORT: dict[str, Any] = {
    "verdict": "refuse",
    "checks": [{"rule": "SD201"}],
    "ms": 4.5,
    "plan": None,
}


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        "error[SD208] some-name: it is 9, not 7",
        "draft /home/you/samples/v1/dflash/config.json #/block_size = 8\n...\nexit 78",
        "A runtime 1 B 2.00 GiB 0\n...\nrefused: 2 errors, 1 note; target not loaded; 9 s; exit 78",
    ],
)
def test_text_that_differs_in_figures_and_places_is_the_same(shown: str) -> None:
    assert missing_words(shown, PRINTED) == ""


@pytest.mark.parametrize(
    "shown",
    [
        "error[SD207] some-name:",
        "some-name: it is 8, but 7",
        "#/block_size = 8 = 8",
        "exit 78\n...\nrefused:",
        "draft /tmp/x/samples/v1/dspark/config.json",
        "A runtime\n...\nB runtime",
    ],
)
def test_text_that_says_something_else_is_found(shown: str) -> None:
    assert missing_words(shown, PRINTED)


@pytest.mark.parametrize("shown", [{}, {"verdict": "refuse", "ms": 1.25}, {"checks": [{}]}])
def test_a_part_of_a_report_is_within_it(shown: dict[str, Any]) -> None:
    assert unlike(shown, REPORT) == ""


@pytest.mark.parametrize(
    "shown", [{"verdict": "accept"}, {"checks": [{"rule": "SD202"}]}, {"plan": {}}, {"none": None}]
)
def test_what_a_report_does_not_hold_is_found(shown: dict[str, Any]) -> None:
    assert unlike(shown, REPORT)
