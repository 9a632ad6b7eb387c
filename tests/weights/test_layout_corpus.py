"""Expected tensors, compared with the headers of published drafts."""

import json

import pytest

from server.weights.layout import draft_layout
from tests.corpus import corpus_file
from tests.weights.make import DRAFT_4B, DSPARK, make_draft


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("z-lab__Qwen3-4B-DFlash-b16.tensors.reconstructed.json", {}),
        ("deepseek-ai__dspark_qwen3_4b_block7.tensors.json", DSPARK),
    ],
)
def test_layout_equals_a_published_header(file: str, changes: dict[str, object]) -> None:
    header = json.loads(corpus_file(f"tensors/{file}").read_text())
    layout = draft_layout(make_draft(**{**DRAFT_4B, **changes}))
    assert {t.name: list(t.shape) for t in layout} == {
        name: entry["shape"] for name, entry in header.items()
    }
