"""What a refusal of a draft's file tells to do: about the key that it names, and possible."""

import pytest

from tests.config.drafts import DSPINE, FLAT, GONE, NESTED, Raw, finding_of, judge


@pytest.mark.parametrize(
    ("base", "rule", "changes", "words"),
    [
        (FLAT, "SD303", {"architectures": ["Qwen3OmniDSparkModel"]}, "Qwen3DSparkModel"),
        (NESTED, "SD303", {"architectures": ["Qwen3DFlashModel"]}, "QwenDFlashDraftModel"),
        (DSPINE, "SD303", {"architectures": ["Qwen3DFlashModel"]}, "DFlashDraftModel"),
        (FLAT, "SD304", {"num_anchors": GONE}, "add num_anchors"),
        (FLAT, "SD304", {"sample_from_anchor": False}, "set sample_from_anchor to true"),
        (NESTED, "SD304", {"sample_from_anchor": True}, "set sample_from_anchor to false"),
        (NESTED, "SD304", {"num_anchors": 512}, "keep num_anchors only in flat"),
    ],
)
def test_fix_is_about_the_key_that_is_told(base: Raw, rule: str, changes: Raw, words: str) -> None:
    assert words in finding_of(judge(base, changes), rule).fix


def test_missing_architecture_of_dspine_is_called_missing() -> None:
    told = finding_of(judge(DSPINE, {"architectures": GONE}), "SD303")
    assert "architectures is missing" in told.message


def test_a_key_that_is_refused_is_no_suggestion() -> None:
    told = finding_of(judge(NESTED, {"dflash_config/max_anchors": 512}), "SD109")
    assert "num_anchors" not in told.fix
