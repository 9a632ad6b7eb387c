"""The tensors of EAGLE's relatives: names, shapes and dtypes, and what is told of others."""

import json
from pathlib import Path

import pytest
import torch

from server.config.draft import Draft, read_draft
from tests.config.drafts import GONE, Raw
from tests.config.families.eagle_relatives import (
    DEEPSPEC,
    EAGLE,
    EAGLE3,
    LLAMA,
    MEDUSA,
    MIMO,
    MOE,
    MTP,
    P_EAGLE,
    PLAIN,
    judge_with,
    tiny,
)
from tests.config.families.headers import judge_header, layout_of, values_of
from tests.corpus import corpus_file
from tests.weights.make import rules_of

MODULE = {"model.mtp_layers.0.input_proj.weight"}
COMPLETE = {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"}
Shapes = dict[str, tuple[int, ...]]


def draft_of(base: Raw, changes: Raw | None = None) -> Draft:
    """The draft of a tiny file; MiMo's is told by the header."""
    return judge_with(tiny(base, changes), MODULE if base is MIMO else None)


FILES: dict[str, tuple[Raw, Raw]] = {
    "eagle3": (EAGLE3, {}),
    "eagle3 of DeepSpec": (DEEPSPEC, {}),
    "eagle3 with norms": (EAGLE3, {"norm_before_fc": True, "fc_norm": True}),
    "p-eagle": (P_EAGLE, {}),
    "eagle": (EAGLE, {}),
    "eagle with biases": (EAGLE, {"attention_bias": True}),
    "draft-model": (PLAIN, {"num_hidden_layers": 2}),
    "draft-model of Qwen2": (
        PLAIN,
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 2},
    ),
    "mtp": (MTP, {}),
    "mtp of experts": (MOE, {}),
    "mtp of MiMo": (MIMO, {}),
    "mtp of a wider target": (MTP, {"target_hidden_size": 16}),
    "medusa": (MEDUSA, {"medusa_fc_bias": True}),
}
# Some names of each with their shapes, in a geometry of hidden 8, inner 12, heads 6 * 4 and 2 * 4.
SHAPES: dict[str, Shapes] = {
    "eagle3": {
        "fc.weight": (8, 24),
        "layers.0.self_attn.q_proj.weight": (24, 16),
        "layers.0.self_attn.v_proj.weight": (8, 16),
        "layers.0.self_attn.o_proj.weight": (8, 24),
        "layers.0.hidden_norm.weight": (8,),
        "lm_head.weight": (10, 8),
        "d2t": (10,),
        "t2d": (20,),
    },
    "eagle3 of DeepSpec": {
        "fc.weight": (8, 40),
        "layers.0.self_attn.q_norm.weight": (4,),
        "lm_head.weight": (20, 8),
    },
    "eagle3 with norms": {"input_norm.weight": (24,), "fc_norm.2.weight": (8,)},
    "p-eagle": {
        "mask_hidden": (1, 1, 24),
        "layers.0.self_attn.q_proj.weight": (24, 16),
        "layers.3.self_attn.q_proj.weight": (24, 8),
    },
    "eagle": {
        "fc.weight": (8, 16),
        "layers.0.self_attn.q_proj.weight": (24, 8),
        "embed_tokens.weight": (20, 8),
    },
    "eagle with biases": {"layers.0.self_attn.k_proj.bias": (8,)},
    "draft-model": {
        "model.embed_tokens.weight": (20, 8),
        "model.layers.1.self_attn.q_norm.weight": (4,),
        "lm_head.weight": (20, 8),
    },
    "draft-model of Qwen2": {"model.layers.1.self_attn.q_proj.bias": (24,)},
    "mtp": {
        "eh_proj.weight": (8, 16),
        "enorm.weight": (8,),
        "midlayer.self_attn.q_norm.weight": (4,),
        "midlayer.mlp.gate_proj.weight": (12, 8),
    },
    "mtp of experts": {
        "midlayer.mlp.experts_gate_proj": (4, 8, 6),
        "midlayer.mlp.experts_down_proj": (4, 6, 8),
        "midlayer.mlp.router.gate.weight": (4, 8),
        "midlayer.mlp.shared_mlp.up_proj.weight": (12, 8),
    },
    "mtp of MiMo": {
        "model.mtp_layers.0.input_proj.weight": (8, 16),
        "model.mtp_layers.0.self_attn.q_proj.bias": (24,),
    },
    "mtp of a wider target": {"hidden_proj.weight": (8, 16), "eh_proj.weight": (8, 16)},
    "medusa": {"blocks.2.layers.0.weight": (8, 8), "lm_heads.2.weight": (20, 8)},
}


@pytest.mark.parametrize("name", FILES)
def test_sound_checkpoint_passes(name: str, tmp_path: Path) -> None:
    draft = draft_of(*FILES[name])
    layout = layout_of(draft)
    assert {key: layout[key].shape for key in SHAPES[name]} == SHAPES[name]
    assert rules_of(judge_header(draft, tmp_path, values_of(draft))) in ([], ["SD416"])


@pytest.mark.parametrize("name", FILES)
def test_what_is_needed_suffices(name: str, tmp_path: Path) -> None:
    draft = draft_of(*FILES[name])
    needed = {key for key, told in layout_of(draft).items() if told.needed}
    kept = {key: value for key, value in values_of(draft).items() if key in needed}
    assert rules_of(judge_header(draft, tmp_path, kept)) in ([], ["SD416"])


@pytest.mark.parametrize("name", FILES)
def test_each_needed_tensor_is_missed(name: str, tmp_path: Path) -> None:
    draft = draft_of(*FILES[name])
    first = next(key for key, told in layout_of(draft).items() if told.needed)
    values = values_of(draft)
    del values[first]
    outcome = judge_header(draft, tmp_path, values)
    (found,) = [f for f in outcome.findings if f.rule == "SD402"]
    assert first in found.message


@pytest.mark.parametrize("name", FILES)
def test_wrong_shape_and_strange_tensor_are_told(name: str, tmp_path: Path) -> None:
    draft = draft_of(*FILES[name])
    values = values_of(draft)
    wrong = next(iter(SHAPES[name]))
    values[wrong] = torch.zeros((3, 3), dtype=values[wrong].dtype)
    values["model.stranger.weight"] = torch.zeros(2, dtype=torch.bfloat16)
    told = {f.rule: f.message for f in judge_header(draft, tmp_path, values).findings}
    assert wrong in told["SD401"]
    assert "stranger.weight" in told["SD403"]


@pytest.mark.parametrize(
    ("table", "dtype"), [("d2t", torch.int32), ("t2d", torch.uint8), ("d2t", torch.bfloat16)]
)
def test_tables_of_the_vocabulary_have_one_dtype(
    table: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    draft = draft_of(EAGLE3)
    values = values_of(draft)
    values[table] = values[table].to(dtype)
    (found,) = [f for f in judge_header(draft, tmp_path, values).findings if f.rule == "SD404"]
    assert table in found.message


def test_whole_vocabulary_needs_neither_tables_nor_head(tmp_path: Path) -> None:
    draft = draft_of(EAGLE3, {"draft_vocab_size": 20})
    values = values_of(draft)
    for name in ("d2t", "t2d", "lm_head.weight"):
        del values[name]
    assert "SD402" not in rules_of(judge_header(draft, tmp_path, values))
    del values["fc.weight"]
    assert "SD402" in rules_of(judge_header(draft, tmp_path, values))


def test_both_names_of_the_first_layer_are_read(tmp_path: Path) -> None:
    draft = draft_of(EAGLE3)
    values = values_of(draft)
    written = {key.replace("layers.0.", "midlayer."): value for key, value in values.items()}
    assert any(key.startswith("midlayer.") for key in written)
    assert rules_of(judge_header(draft, tmp_path, written)) == ["SD416"]
    other = {key.replace("layers.0.", "firstlayer."): value for key, value in values.items()}
    assert "SD403" in rules_of(judge_header(draft, tmp_path, other))


def test_head_without_captured_states_needs_no_fc() -> None:
    config = {"eagle_config": {"use_aux_hidden_state": False}}
    assert layout_of(draft_of(EAGLE3, config))["fc.weight"].needed is False
    assert layout_of(draft_of(EAGLE3))["fc.weight"].needed is True


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (EAGLE3, {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v3"}),
        (EAGLE3, {"architectures": ["Gemma4Eagle3Model"], "model_type": "gemma4_text"}),
        (EAGLE, {"architectures": ["EagleDeepSeekForCausalLM"], "model_type": "deepseek_v3"}),
        (PLAIN, {"architectures": ["PhiForCausalLM"], "model_type": "phi"}),
        (MTP, {"architectures": ["DeepSeekMTPModel"], "model_type": "deepseek_mtp"}),
        (MTP, {"mlp_type": "sparse"}),
        (MEDUSA, {"hidden_size": GONE}),
    ],
)
def test_tensors_of_other_layers_wait_on_the_refusal(base: Raw, changes: Raw) -> None:
    draft = draft_of(base, changes)
    assert draft.reading is not None
    assert draft.tensors is not None
    waits = [need for need in draft.tensors.needs if need in draft.reading.unresolved]
    assert {draft.reading.unresolved[need] for need in waits} == {"SD312"}


def test_eagle_may_lack_the_first_norm_of_its_first_layer_only() -> None:
    layout = layout_of(draft_of(EAGLE, {"num_hidden_layers": 2}))
    name = "input_layernorm.weight"
    assert [layout[f"layers.{i}.{name}"].needed for i in (0, 1)] == [False, True]


def test_tied_model_needs_no_head() -> None:
    for tied in (True, False):
        layout = layout_of(draft_of(PLAIN, {"tie_word_embeddings": tied}))
        assert layout["lm_head.weight"].needed is not tied


def test_model_of_one_layer_has_the_same_tensors() -> None:
    draft = judge_with(tiny(LLAMA), COMPLETE)
    assert draft.family == "draft-model"
    assert "model.layers.0.self_attn.q_norm.weight" not in layout_of(draft)


def real_tensors() -> dict[str, dict[str, object]]:
    path = corpus_file("tensors/AngelSlim__Qwen3-8B_eagle3.tensors.json")
    listed: dict[str, dict[str, object]] = json.loads(path.read_text())
    return listed


def test_public_head_of_qwen3_8b_has_the_tensors_that_its_config_implies() -> None:
    config = corpus_file("eagle3/Tencent__AngelSlim-qwen3-8b-eagle3.json")
    layout = layout_of(read_draft(config, False))
    found = {name.replace("midlayer.", "layers.0."): t for name, t in real_tensors().items()}
    assert {name: tuple(layout[name].shape) for name in found} == {
        name: tuple(t["shape"]) for name, t in found.items() if isinstance(t["shape"], list)
    }
    assert set(layout) - set(found) == {"embed_tokens.weight"}
    kinds = {name: layout[name].dtypes or ("BF16",) for name in found}
    assert kinds == {name: (t["dtype"],) for name, t in found.items()}


def test_public_module_of_mimo_has_the_tensors_that_its_config_implies() -> None:
    index = json.loads(corpus_file(
        "tensors/XiaomiMiMo__MiMo-7B.model.safetensors.index.json"
    ).read_text())  # fmt: skip
    names = frozenset(index["weight_map"])
    config = corpus_file("target/XiaomiMiMo__MiMo-7B-RL-like.json")
    whole = read_draft(config, False, names)
    assert "a complete model and an MTP module" in whole.undecided
    module = frozenset(name for name in names if "mtp_layers" in name)
    draft = read_draft(config, False, module)
    assert draft.family == "mtp"
    assert set(layout_of(draft)) == module
