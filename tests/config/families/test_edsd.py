"""EDSD: its captured layers, and its tensors beside those of EAGLE-3."""

import pytest

from tests.config.drafts import Raw, judge, rules_of
from tests.config.families.eagle_relatives import EAGLE3, tiny
from tests.config.families.headers import layout_of

EDSD: Raw = {**EAGLE3, "architectures": ["EdsdDraftModel"], "target_layer_ids": [23, 34]}


@pytest.mark.parametrize(
    ("ids", "rules"), [([23, 34], []), ([34], ["SD108"]), ([1, 23, 34], ["SD108"])]
)
def test_two_layers_are_captured(ids: list[int], rules: list[str]) -> None:
    assert rules_of(judge(EDSD, {"target_layer_ids": ids})) == rules


def test_ids_name_outputs() -> None:
    draft = judge(EDSD)
    assert draft.reading is not None
    assert draft.reading.partial.captured_outputs == (23, 34)


def test_tensors_differ_from_those_of_eagle3() -> None:
    own = {t.name: t.shape for t in layout_of(judge(tiny(EDSD))).values()}
    other = {t.name: t.shape for t in layout_of(judge(tiny(EAGLE3))).values()}
    assert own["fc.weight"] == (8, 2 * 8)
    assert own["midlayer.self_attn.q_proj.weight"] == (6 * 4, 8)
    assert other["layers.0.self_attn.q_proj.weight"] == (6 * 4, 2 * 8)
    assert {"embnorm.weight", "edfuse.down_proj.weight"} <= own.keys() - other.keys()
    assert "midlayer.input_layernorm.weight" not in own
