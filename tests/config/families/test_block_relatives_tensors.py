"""Tensors of DFlash's relatives: names and shapes against tables, and small headers judged."""

from collections.abc import Mapping
from math import prod
from pathlib import Path

import pytest
import torch

from server.findings import Outcome
from tests.config.drafts import GONE, NESTED, Raw, judge, make
from tests.config.families.headers import judge_header, layout_of, values_of
from tests.config.families.relatives import (
    ANGELSPEC_DSPARK,
    DFLARE,
    DFLASH2,
    DFLY,
    FILES,
    GATED,
    JETSPEC,
    MODELOPT,
    SPECFORGE,
    tiny,
)
from tests.weights.make import rules_of

IN = "dflash_config/"
Shapes = Mapping[str, list[int]]

# A decoder layer of the tiny geometry: hidden 8, intermediate 12, 6 heads of 4, 2 shared ones.
LAYER: Shapes = {
    "input_layernorm.weight": [8],
    "self_attn.q_proj.weight": [24, 8],
    "self_attn.k_proj.weight": [8, 8],
    "self_attn.v_proj.weight": [8, 8],
    "self_attn.o_proj.weight": [8, 24],
    "self_attn.q_norm.weight": [4],
    "self_attn.k_norm.weight": [4],
    "post_attention_layernorm.weight": [8],
    "mlp.gate_proj.weight": [12, 8],
    "mlp.up_proj.weight": [12, 8],
    "mlp.down_proj.weight": [8, 12],
}
LAYERS: Shapes = {f"layers.{i}.{name}": shape for i in (0, 1) for name, shape in LAYER.items()}
ZLAB: Shapes = {"fc.weight": [8, 40], "hidden_norm.weight": [8], "norm.weight": [8]}
TENCENT: Shapes = {
    "context_norm.weight": [8],
    "final_norm.weight": [8],
    "embed_tokens.weight": [20, 8],
}
CONVOLUTIONS: Shapes = {
    f"layers.{i}.{part}_conv.{name}": shape
    for i in (0, 1)
    for part in ("attention", "mlp")
    for name, shape in {"base_kernel": [2, 2, 8], "kernel_projection.weight": [8, 8]}.items()
}
SELECTOR: Shapes = {
    "candidate_selector.predecessor_codebook": [20, 3],
    "candidate_selector.successor_codebook": [20, 3],
    "candidate_selector.hidden_projection.weight": [3, 8],
}
HEADS: Shapes = {
    "markov_head.markov_w1.weight": [20, 5],
    "markov_head.markov_w2.weight": [20, 5],
    "confidence_head.proj.weight": [1, 13],
    "confidence_head.proj.bias": [1],
}
ROOT_HEADS: Shapes = {
    "markov_w1.weight": [20, 5],
    "markov_w2.weight": [20, 5],
    "confidence_proj.weight": [1, 13],
    "confidence_proj.bias": [1],
}
CORRECTION: Shapes = {
    "hidden_correction.hidden_norm.weight": [8],
    "hidden_correction.embed_norm.weight": [8],
    "hidden_correction.gate_proj.weight": [8, 16],
    "hidden_correction.up_proj.weight": [8, 16],
    "hidden_correction.down_proj.weight": [8, 8],
}
PROJECTED: Shapes = {"context_proj.weight": [8, 40]}
FUSED: Shapes = {"layer_fusion_weights": [2, 5]}
SEPARATE: Shapes = {
    f"layers.{i}.self_attn.{side}_proj_target.weight": [8, 8] for i in (0, 1) for side in "kv"
}
TABLES: dict[str, Shapes] = {
    "dflash2 (nested)": {**ZLAB, **CONVOLUTIONS, **SELECTOR},
    "dspark (nested)": {**ZLAB, **HEADS},
    "dspark (modelopt)": {**ZLAB, **ROOT_HEADS},
    "dspark (hybrid)": {**ZLAB, **HEADS},
    "dspark (angelspec)": {**TENCENT, **PROJECTED, **HEADS, **CORRECTION},
    "dflash (angelspec)": {**TENCENT, **PROJECTED},
    "dfly (angelspec)": {**TENCENT, **PROJECTED, **FUSED, **CORRECTION},
    "dflare (nested)": {"hidden_norm.weight": [8], "norm.weight": [8], **FUSED, **SEPARATE},
    "dflare (angelspec)": {**TENCENT, **FUSED, **SEPARATE},
    "jetspec (nested)": ZLAB,
}


def shapes(base: Raw, changes: Raw | None = None) -> Shapes:
    return {t.name: list(t.shape) for t in layout_of(judge(tiny(base, changes))).values()}


def errors(outcome: Outcome) -> list[str]:
    return [rule for rule in rules_of(outcome) if rule != "SD416"]


@pytest.mark.parametrize("name", FILES)
def test_names_and_shapes(name: str) -> None:
    assert shapes(FILES[name]) == {**LAYERS, **TABLES[name]}


@pytest.mark.parametrize(
    ("base", "changes", "name", "shape"),
    [
        (SPECFORGE, {IN + "markov_head_type": "gated"}, "markov_head.gate_proj.weight", [5, 13]),
        (SPECFORGE, {IN + "markov_head_type": "rnn"}, "markov_head.joint_proj.weight", [15, 18]),
        (SPECFORGE, {IN + "confidence_head_with_markov": False},
         "confidence_head.proj.weight", [1, 8]),
        (SPECFORGE, {IN + "markov_rank": 0}, "markov_head.markov_w1.weight", None),
        (MODELOPT, {IN + "markov_head_type": "gated"}, "gate_proj.bias", [5]),
        (DFLASH2, {IN + "conv_kernel_size": GONE, IN + "conv_group_size": GONE},
         "layers.0.mlp_conv.base_kernel", None),
        (DFLASH2, {IN + "conv_kernel_size": 4, IN + "conv_group_size": 2},
         "layers.1.mlp_conv.kernel_projection.weight", [32, 8]),
        (DFLASH2, {IN + "selector_rank": GONE, IN + "selector_top_k": GONE},
         "candidate_selector.successor_codebook", None),
        (DFLY, {"hidden_correction_intermediate_size": 7},
         "hidden_correction.down_proj.weight", [8, 7]),
        (DFLY, {"enable_hidden_correction": False}, "hidden_correction.down_proj.weight", None),
        (DFLY, {"target_hidden_size": 6}, "context_proj.weight", [8, 30]),
        (DFLARE, {"num_hidden_layers": 3}, "layer_fusion_weights", [3, 5]),
        (GATED, {}, "context_proj.weight", None),
        (GATED, {}, "layer_gate", [5]),
        (GATED, {}, "candidate_norms.4.weight", [8]),
    ],
)  # fmt: skip
def test_parts_that_a_field_decides(
    base: Raw, changes: Raw, name: str, shape: list[int] | None
) -> None:
    assert shapes(base, changes).get(name) == shape


@pytest.mark.parametrize("name", FILES)
def test_good_header_then_one_tensor_missing_extra_and_of_another_shape(
    name: str, tmp_path: Path
) -> None:
    draft = judge(tiny(FILES[name]))
    good = values_of(draft)
    assert errors(judge_header(draft, tmp_path, good)) == []
    own = next(iter(TABLES[name]))
    lacking = {key: value for key, value in good.items() if key != own}
    outcome = judge_header(draft, tmp_path, lacking)
    assert errors(outcome) == ["SD402"]
    assert outcome.findings[0].message.endswith(own)
    stray = {**good, "stray_head.weight": torch.ones(2, dtype=torch.bfloat16)}
    outcome = judge_header(draft, tmp_path, stray)
    assert errors(outcome) == ["SD403"]
    assert outcome.findings[0].message.endswith("stray_head.weight")
    wide = {**good, own: torch.ones(3, 3, dtype=torch.bfloat16)}
    outcome = judge_header(draft, tmp_path, wide)
    assert errors(outcome) == ["SD401"]
    assert f"{own} is [3, 3]" in outcome.findings[0].message


@pytest.mark.parametrize(
    ("base", "changes", "optional"),
    [
        (DFLY, {}, "embed_tokens.weight"),
        (ANGELSPEC_DSPARK, {}, "hidden_correction."),
        (DFLY, {"enable_hidden_correction": GONE}, "hidden_correction."),
        (SPECFORGE, {IN + "enable_confidence_head": False}, "confidence_head."),
    ],
)
def test_parts_that_a_file_may_leave_out(
    base: Raw, changes: Raw, optional: str, tmp_path: Path
) -> None:
    draft = judge(tiny(base, changes))
    good = values_of(draft)
    less = {name: value for name, value in good.items() if optional not in name}
    assert len(less) < len(good)
    assert errors(judge_header(draft, tmp_path, less)) == []
    assert errors(judge_header(draft, tmp_path, good)) == []


@pytest.mark.parametrize(
    ("base", "known", "written"),
    [
        (SPECFORGE, "markov_head.", "logit_head.markov_head."),
        (SPECFORGE, "confidence_head.", "logit_head.confidence_head."),
        (MODELOPT, "markov_w1.", "markov_head.markov_w1."),
        (DFLASH2, "candidate_selector.successor_codebook",
         "candidate_selector.successor_codebook.weight"),
        (JETSPEC, "", "model."),
    ],
)  # fmt: skip
def test_names_of_other_exporters(base: Raw, known: str, written: str, tmp_path: Path) -> None:
    draft = judge(tiny(base))
    good = values_of(draft)
    other = {n.replace(known, written, 1) if n.startswith(known) else n: t for n, t in good.items()}
    assert other.keys() != good.keys()
    assert errors(judge_header(draft, tmp_path, other)) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dflash2 (nested)", "dflash2"),
        ("dspark (nested)", "dspark"),
        ("dspark (modelopt)", "dspark"),
        ("dfly (angelspec)", "dfly"),
        ("dflare (nested)", "dflare"),
        ("dflare (angelspec)", "dflare"),
    ],
)
def test_weights_of_a_relative_under_a_plain_config_are_told_by_its_name(
    name: str, told: str, tmp_path: Path
) -> None:
    weights = values_of(judge(tiny(FILES[name])))
    plain = judge(tiny(make(NESTED)))
    assert plain.family == "dflash"
    outcome = judge_header(plain, tmp_path, weights)
    unexpected = next(f for f in outcome.findings if f.rule == "SD403")
    assert told in unexpected.message.partition("a family that has such tensors is ")[2]


def test_a_malformed_field_of_a_shape_makes_the_tensors_wait() -> None:
    broken: list[tuple[Raw, Raw]] = [
        (DFLASH2, {IN + "conv_kernel_size": "2"}),
        (SPECFORGE, {IN + "markov_head_type": "lstm"}),
        (SPECFORGE, {IN + "attention_mode": "mla"}),
        (DFLY, {"hidden_correction_intermediate_size": 0}),
        (DFLY, {"target_hidden_size": "8"}),
        (GATED, {"fusion_type": 5}),
    ]
    for base, changes in broken:
        draft = judge(tiny(base, changes))
        assert draft.tensors is not None
        assert draft.reading is not None
        assert draft.reading.unresolved.keys() & set(draft.tensors.needs)


def test_jetspec_has_the_published_count_and_size() -> None:
    """JetSpec/jetspec-Qwen3.6-35B-A3B: 8 layers of width 2048, 5 captured layers."""
    changes = {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 8,
        "num_key_value_heads": 4,
        "vocab_size": 248320,
    }
    layout = layout_of(judge(JETSPEC, changes)).values()
    assert len(layout) == 91
    assert sum(prod(tensor.shape) for tensor in layout) == 473_995_264
