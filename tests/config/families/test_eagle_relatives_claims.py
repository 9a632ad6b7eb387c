"""Families that only the names of the tensors can tell apart."""

import pytest

from server.config.draft import ensure_servable
from server.config.families.model import UNKNOWN
from tests.config.drafts import GONE, Raw, refusals
from tests.config.families.eagle_relatives import LLAMA, MIMO, judge_with

LAYER = "layers.0.self_attn.q_proj.weight"
MODEL = {"model.embed_tokens.weight", f"model.{LAYER}", "model.norm.weight", "lm_head.weight"}
HEAD = {"fc.weight", "embed_tokens.weight", LAYER}


@pytest.mark.parametrize(
    ("tensors", "family", "words"),
    [
        (HEAD, "eagle", ""),
        (HEAD - {"embed_tokens.weight"}, "eagle", ""),
        (MODEL, "draft-model", ""),
        (MODEL | {"fc.weight"}, UNKNOWN, "neither fc.weight alone nor a complete model"),
        (MODEL - {"model.embed_tokens.weight"}, UNKNOWN, "neither fc.weight alone"),
        (HEAD - {"fc.weight"}, UNKNOWN, "neither fc.weight alone"),
        ({"fc.weight", f"model.{LAYER}"}, UNKNOWN, "neither fc.weight alone"),
        (set(), UNKNOWN, "neither fc.weight alone"),
        (None, UNKNOWN, "only the safetensors header can tell"),
    ],
)
def test_one_layer_llama_by_its_tensors(tensors: set[str] | None, family: str, words: str) -> None:
    draft = judge_with(LLAMA, tensors)
    assert draft.family == family
    assert refusals(draft) == ["SD302" if family == UNKNOWN else "SD312"]
    assert words in ensure_servable(draft, "auto").findings[0].message
    if family == UNKNOWN:
        assert draft.undecided.startswith("undecided between eagle and draft-model")


@pytest.mark.parametrize(
    ("tensors", "family", "words"),
    [
        ({"model.mtp_layers.0.input_proj.weight"}, "mtp", ""),
        ({"mtp.fc.weight", "lm_head.weight"}, "mtp", ""),
        ({"model.layers.36.eh_proj.weight", "model.layers.36.enorm.weight"}, "mtp", ""),
        (MODEL, "draft-model", ""),
        (MODEL | {"model.mtp_layers.0.input_proj.weight"}, UNKNOWN, "a complete model and an MTP"),
        (MODEL | {"model.layers.36.eh_proj.weight"}, UNKNOWN, "a complete model and an MTP module"),
        # A layer of the model itself is no module.
        (MODEL | {"model.layers.35.eh_proj.weight"}, "draft-model", ""),
        ({"model.layers.35.eh_proj.weight"}, UNKNOWN, "neither a model nor an MTP module"),
        ({f"model.layers.{'9' * 5000}.eh_proj.weight"}, UNKNOWN, "neither a model nor an MTP"),
        (set(), UNKNOWN, "neither a model nor an MTP module"),
        (None, UNKNOWN, "holds an MTP module by its config"),
    ],
)
def test_causal_model_with_a_module_by_its_tensors(
    tensors: set[str] | None, family: str, words: str
) -> None:
    draft = judge_with(MIMO, tensors)
    assert draft.family == family
    assert refusals(draft) == ["SD302" if family == UNKNOWN else "SD312"]
    assert words in ensure_servable(draft, "auto").findings[0].message
    if family == UNKNOWN:
        assert draft.undecided.startswith("undecided between mtp and draft-model")


VISION = {"architectures": ["Qwen3_5ForConditionalGeneration"], "num_nextn_predict_layers": GONE}
NESTED_MODULE = {"text_config": {"mtp_num_hidden_layers": 1}}
PARTS = {name.replace("model.", "model.language_model.", 1) for name in MODEL}


@pytest.mark.parametrize(
    ("tensors", "family"),
    [
        (None, UNKNOWN),
        ({"mtp.fc.weight"}, "mtp"),
        (PARTS | {"mtp.fc.weight"}, UNKNOWN),
    ],
)
def test_module_of_a_model_of_several_parts(tensors: set[str] | None, family: str) -> None:
    draft = judge_with(MIMO, tensors, VISION | NESTED_MODULE)
    assert draft.family == family
    if family == UNKNOWN:
        assert draft.undecided.startswith("undecided between mtp and draft-model")
        told = ensure_servable(draft, "auto").findings[0].message
        assert "text_config.mtp_num_hidden_layers is 1" in told


@pytest.mark.parametrize("changes", [{"draft_vocab_size": 32000}, {"architectures": GONE}])
def test_tensors_decide_nothing_that_the_config_has_decided(changes: Raw) -> None:
    for tensors in (HEAD, MODEL, None):
        draft = judge_with(LLAMA, tensors, changes)
        assert draft.family == judge_with(LLAMA, None, changes).family


def test_deeper_model_is_a_draft_model_without_a_header() -> None:
    assert judge_with(LLAMA, None, {"num_hidden_layers": 2}).family == "draft-model"
    assert judge_with(LLAMA, MODEL, {"num_hidden_layers": 2}).family == "draft-model"
