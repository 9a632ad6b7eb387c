"""Expected tensors, compared with published sizes and with the torch modules."""

from math import prod

import pytest

from server.config.records import TargetConfig
from server.config.tensors import ExpectedTensor
from server.model.build import build_drafter, build_target
from server.weights.layout import draft_layout, target_layout
from tests.weights.make import DRAFT_4B, DSPARK, QWEN3_8B, make_draft, make_target


def shapes(layout: tuple[ExpectedTensor, ...]) -> dict[str, list[int]]:
    return {tensor.name: list(tensor.shape) for tensor in layout}


def test_qwen3_8b_has_the_published_size() -> None:
    layout = target_layout(make_target(**QWEN3_8B))
    assert len(layout) == 399
    assert sum(prod(tensor.shape) for tensor in layout) == 8_190_735_360


def test_its_dflash_draft_has_the_published_size() -> None:
    changes = {**DRAFT_4B, "hidden_size": 4096, "intermediate_size": 12288}
    layout = draft_layout(make_draft(**changes))
    assert len(layout) == 58
    assert sum(prod(tensor.shape) for tensor in layout) == 1_048_626_432


def test_a_tied_target_ships_its_head_for_nothing() -> None:
    head = target_layout(make_target(tie_word_embeddings=True))[-1]
    assert (head.name, head.needed, head.loaded) == ("lm_head.weight", False, False)
    head = target_layout(make_target())[-1]
    assert (head.needed, head.loaded) == (True, True)


@pytest.mark.parametrize("tied", [False, True])
def test_loaded_target_tensors_are_the_parameters_of_the_module(tied: bool) -> None:
    config = make_target(tie_word_embeddings=tied)
    loaded = {t.name: t.shape for t in target_layout(config) if t.loaded}
    parameters = {n: tuple(p.shape) for n, p in build_target(config).named_parameters()}
    assert loaded == parameters


@pytest.mark.parametrize("changes", [{}, {**DSPARK, "markov_rank": 4}])
def test_loaded_draft_tensors_are_the_parameters_of_the_module(changes: dict[str, object]) -> None:
    draft = make_draft(**changes)
    loaded = {t.name: t.shape for t in draft_layout(draft) if t.loaded}
    parameters = {n: tuple(p.shape) for n, p in build_drafter(draft, 8).named_parameters()}
    assert loaded == parameters


def test_fc_takes_the_width_of_the_target() -> None:
    assert shapes(draft_layout(make_draft(target_hidden_size=10)))["fc.weight"] == [8, 3 * 10]


def test_terms_name_the_fields_of_each_dimension() -> None:
    by_name = {tensor.name: tensor.terms for tensor in target_layout(make_target())}
    assert by_name["model.layers.0.self_attn.o_proj.weight"] == (
        "hidden_size",
        "num_attention_heads*head_dim",
    )


def test_confidence_head_is_asked_for_only_where_the_config_has_one() -> None:
    plain = {t.name: t for t in draft_layout(make_draft(schema_id="flat"))}
    assert not [name for name in plain if name.startswith("confidence_head")]
    dspark = {t.name: t for t in draft_layout(make_draft(**{**DSPARK, "markov_rank": 4}))}
    weight = dspark["confidence_head.proj.weight"]
    assert (weight.shape, weight.needed, weight.loaded) == ((1, 12), True, False)
    narrow = {**DSPARK, "markov_rank": 4, "confidence_head_with_markov": False}
    weight = {t.name: t for t in draft_layout(make_draft(**narrow))}[weight.name]
    assert weight.shape == (1, 8)


def test_only_flat_drafts_may_ship_the_targets_embedding() -> None:
    nested = shapes(draft_layout(make_draft()))
    flat = shapes(draft_layout(make_draft(schema_id="flat")))
    assert flat.keys() - nested.keys() == {"embed_tokens.weight", "lm_head.weight"}


def test_layers_grow_with_the_depth() -> None:
    config: TargetConfig = make_target(num_hidden_layers=3)
    assert len(target_layout(config)) - len(target_layout(make_target())) == 11


def test_layers_are_bounded_far_above_any_model() -> None:
    assert make_target(num_hidden_layers=2**14).num_hidden_layers == 16384
    with pytest.raises(ValueError, match="num_hidden_layers"):
        make_target(num_hidden_layers=2**14 + 1)
