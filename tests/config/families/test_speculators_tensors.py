"""The tensors of each algorithm of the speculators format: those of its base family, and tables."""

from pathlib import Path
from typing import Any

import pytest
import torch

from server.config.draft import Draft, read_draft
from tests.config.drafts import Raw, judge, make
from tests.config.families.eagle_relatives import TINY
from tests.config.families.headers import judge_header, layout_of, values_of
from tests.config.families.speculator_files import DFLASH, DSPARK, EAGLE, EAGLE3, FILES, MTP
from tests.corpus import corpus_file
from tests.weights.make import rules_of

LAYER = "transformer_layer_config"
_SMALL = {
    **{"draft_vocab_size": 10, "markov_rank": 5, "conv_group_size": 4, "selector_rank": 3},
    **{"selector_top_k": 2, "medusa_hidden_size": 8, "medusa_vocab_size": 20},
    **{"mask_token_id": 19, "ptd_token_id": 19},
}


def tiny(base: Raw, changes: Raw | None = None) -> Draft:
    """`base` with a geometry so small that its tensors can be written."""
    raw: dict[str, Any] = make(base)
    raw |= {key: value for key, value in _SMALL.items() if key in raw}
    if LAYER in raw:
        raw[LAYER] |= {key: value for key, value in TINY.items() if key in raw[LAYER]}
    return judge(raw, changes)


# Names with their shapes, in a geometry of hidden 8, inner 12, heads 6 * 4 and 2 * 4, 20 tokens.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "dflash": {
        "fc.weight": (8, 40),
        "layers.1.self_attn.q_norm.weight": (4,),
        "lm_head.weight": (10, 8),
        "d2t": (10,),
        "t2d": (20,),
    },
    "dspark": {
        "markov_head.markov_w1.weight": (20, 5),
        "markov_head.markov_w2.weight": (10, 5),
        "confidence_head.proj.weight": (1, 13),
        "d2t": (10,),
    },
    "dflash2": {
        "layers.0.mlp_conv.base_kernel": (2, 2, 8),
        "layers.1.attention_conv.kernel_projection.weight": (8, 8),
        "candidate_selector.predecessor_codebook": (20, 3),
    },
    "jetspec": {"fc.weight": (8, 40), "lm_head.weight": (10, 8)},
    "eagle": {"fusion_fc.weight": (8, 16), "transformer.self_attn.q_proj.weight": (24, 8)},
    "eagle3": {
        "fc.weight": (8, 24),
        "layers.0.self_attn.q_proj.weight": (24, 16),
        "layers.0.self_attn.k_norm.weight": (4,),
        "d2t": (10,),
    },
    "peagle": {"mask_hidden": (1, 1, 24), "layers.1.self_attn.q_proj.weight": (24, 8)},
    "mtp": {
        "mtp_layers.0.input_proj.weight": (8, 16),
        "mtp_layers.0.self_attn.q_norm.weight": (4,),
    },
    "medusa": {"blocks.4.layers.0.weight": (8, 8)},
}


@pytest.mark.parametrize("algorithm", FILES)
def test_sound_checkpoint_passes_and_no_other(algorithm: str, tmp_path: Path) -> None:
    draft = tiny(FILES[algorithm])
    layout, values = layout_of(draft), values_of(draft)
    assert {name: layout[name].shape for name in SHAPES[algorithm]} == SHAPES[algorithm]
    assert rules_of(judge_header(draft, tmp_path, values)) in ([], ["SD416"])
    needed = next(name for name, told in layout.items() if told.needed)
    del values[needed]
    values["stranger.weight"] = torch.zeros(2, dtype=torch.bfloat16)
    wrong = next(name for name in SHAPES[algorithm] if name != needed)
    values[wrong] = torch.zeros((3, 3), dtype=values[wrong].dtype)
    told = {f.rule: f.message for f in judge_header(draft, tmp_path, values).findings}
    assert needed in told["SD402"]
    assert "stranger.weight" in told["SD403"]
    assert wrong in told["SD401"]


def test_reduced_vocabulary_needs_its_tables() -> None:
    tables = ("d2t", "t2d", "lm_head.weight")
    for rows, needed in ((10, True), (20, False)):
        layout = layout_of(tiny(DFLASH, {"draft_vocab_size": rows}))
        assert [layout[name].needed for name in tables] == [needed] * 3
        assert layout["embed_tokens.weight"].needed is False


def test_heads_of_dspark_follow_its_fields() -> None:
    plain = {"markov_rank": 0, "confidence_head_with_markov": False}
    layout = layout_of(tiny(DSPARK, plain))
    assert "markov_head.markov_w1.weight" not in layout
    assert layout["confidence_head.proj.weight"].shape == (1, 8)
    gated = layout_of(tiny(DSPARK, {"markov_head_type": "gated"}))
    assert gated["markov_head.gate_proj.weight"].shape == (5, 13)


def test_norms_and_biases_are_options() -> None:
    norms = layout_of(tiny(EAGLE, {"layernorms": True, "fusion_bias": True}))
    options = {"fusion_fc.bias", "embedding_layernorm.weight", "transformer.input_layernorm.weight"}
    assert options | {"pre_lm_head_layernorm.weight"} == set(norms) - set(layout_of(tiny(EAGLE)))
    assert layout_of(tiny(EAGLE3, {"norm_before_fc": True}))["input_norm.weight"].shape == (24,)
    assert "input_norm.weight" not in layout_of(tiny(EAGLE3))


def test_llama_decoder_has_no_norm_of_queries() -> None:
    draft = tiny(EAGLE3, {f"{LAYER}/model_type": "llama"})
    assert "layers.0.self_attn.q_norm.weight" not in layout_of(draft)


@pytest.mark.parametrize(
    ("base", "kind"), [(EAGLE3, "deepseek_v3"), (EAGLE, "phi3"), (MTP, "qwen3_next")]
)
def test_tensors_of_other_decoders_wait_on_the_refusal(base: Raw, kind: str) -> None:
    draft = tiny(base, {f"{LAYER}/model_type": kind})
    assert draft.tensors is not None
    assert draft.reading is not None
    waits = {draft.reading.unresolved.get(need) for need in draft.tensors.needs}
    assert "SD312" in waits
    assert waits <= {"SD312", None}


def test_public_dspark_of_five_layers_has_66_tensors() -> None:
    name = "speculators/speculators__qwen3-8b-dspark.reconstructed.json"
    layout = layout_of(read_draft(corpus_file(name), False))
    assert len(layout) == 66
    assert layout["markov_head.markov_w1.weight"].shape == (151936, 256)
    assert layout["markov_head.markov_w2.weight"].shape == (32000, 256)
    assert layout["fc.weight"].shape == (4096, 5 * 4096)
