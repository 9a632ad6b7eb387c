"""Public drafts against public targets: accepted exactly where they belong."""

from pathlib import Path

import pytest

from server.config.draft import read_draft
from server.config.pair import Asked, Pair, judge_pair
from server.config.target import read_target
from server.findings import Outcome
from tests.config.pairs import errors, only
from tests.corpus import corpus_file

Z_LAB_8B = "dflash_nested/z-lab__Qwen3-8B-DFlash-b16.reconstructed.json"
SERVED = {
    "dflash_nested/z-lab__Qwen3-4B-DFlash-b16.reconstructed.json": "4B",
    Z_LAB_8B: "8B",
    "dflash_nested/sgl-project__SpecForge-qwen3-4b-dflash.json": "4B",
    "dflash_nested/sgl-project__SpecForge-qwen3-8b-dflash.json": "8B",
    "dflash_nested/NVIDIA__Model-Optimizer-dflash-export.reconstructed.json": "8B",
    "dflash_flat/deepseek-ai__dflash_qwen3_4b_block7.reconstructed.json": "4B",
    "dflash_flat/deepseek-ai__dflash_qwen3_8b_block7.reconstructed.json": "8B",
    "dspark_flat/deepseek-ai__dspark_qwen3_4b_block7.reconstructed.json": "4B",
    "dspark_flat/deepseek-ai__dspark_qwen3_8b_block7.reconstructed.json": "8B",
}
FITTING = {
    "4B": {"Qwen__Qwen3-4B"},
    "8B": {"Qwen__Qwen3-8B", "Qwen__Qwen3-8B.resaved-transformers4.57"},
}


def judge_files(draft: str, target: Path) -> tuple[Outcome, Outcome]:
    """What the target alone, and the pair, give."""
    left, right = read_draft(corpus_file(draft), False), read_target(target, False)
    assert left.reading is not None
    assert right.reading is not None
    assert not left.outcome.refused
    return right.outcome, judge_pair(Pair(left.reading, right.reading, Asked()))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("Qwen__Qwen3-8B", []),
        ("Qwen__Qwen3-8B.resaved-transformers4.57", []),
        ("Qwen__Qwen3-4B", ["SD201"]),
        ("Qwen__Qwen3-4B-2507", ["SD201", "SD204", "SD205"]),
        ("XiaomiMiMo__MiMo-7B-Base", ["SD203", "SD205"]),
    ],
)
def test_public_8b_draft_against_public_targets(target: str, expected: list[str]) -> None:
    alone, outcome = judge_files(Z_LAB_8B, corpus_file(f"target/{target}.json"))
    assert errors(outcome) == expected
    assert errors(alone) == (["SD310"] if "MiMo" in target else [])


def test_public_8b_draft_on_the_4b_target_says_both_sizes() -> None:
    _, outcome = judge_files(Z_LAB_8B, corpus_file("target/Qwen__Qwen3-4B.json"))
    assert only(outcome).message == "draft hidden_size is 4096, target hidden_size is 2560"


@pytest.mark.parametrize("draft", sorted(SERVED))
def test_public_draft_fits_its_own_target_only(draft: str) -> None:
    folder = corpus_file("target/Qwen__Qwen3-8B.json").parent
    fitting = set()
    for target in sorted(folder.glob("*.json")):
        alone, outcome = judge_files(draft, target)
        if not (alone + outcome).refused:
            fitting.add(target.stem)
    assert fitting == FITTING[SERVED[draft]]
