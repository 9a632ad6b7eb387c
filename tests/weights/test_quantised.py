"""Names of quantised layouts; whole checkpoints are in `tests/weights/fault_table.py`."""

import pytest

from server.weights.quantised import layout_of


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("qweight", "qzeros", "scales", "g_idx"), "GPTQ"),
        (("qweight", "qzeros", "scales"), "AWQ"),
        (("weight_scale", "weight_scale_2"), "NVFP4"),
        (("up_proj_blocks", "up_proj_scales"), "MXFP4"),
        (("weight.absmax",), "bitsandbytes"),
    ],
)
def test_a_layout_is_known_by_its_parts(parts: tuple[str, ...], words: str) -> None:
    found = layout_of(f"layers.0.q_proj.{part}" for part in parts)
    assert found is not None
    assert words in found


@pytest.mark.parametrize("part", ["weight", "up_proj_scales", "scales", "absmax_", "weight_scaled"])
def test_another_tensor_is_of_no_layout(part: str) -> None:
    assert layout_of([f"layers.0.q_proj.{part}", part]) is None
