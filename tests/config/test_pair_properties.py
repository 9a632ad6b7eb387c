"""Pair rules on random models: one wrong field fires one rule, and nothing raises."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.config.pair import Asked, judge_pair, served_length
from tests.config.pairs import errors, make_pair


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A draft and a target of random sizes that fit each other."""
    size = st.integers(1, 2**14)
    depth = draw(st.integers(4, 80))
    ids = sorted(draw(st.sets(st.integers(-1, depth - 2), min_size=1, max_size=8)))
    shared: dict[str, Any] = {
        name: draw(size) for name in ("hidden_size", "num_attention_heads", "head_dim")
    }
    shared["num_key_value_heads"] = draw(size)
    shared["vocab_size"] = draw(st.integers(2, 2**20))
    shared["rope_theta"] = draw(st.floats(1e3, 1e8))
    positions, block = draw(st.integers(64, 2**20)), draw(st.integers(2, 32))
    target = shared | {"num_hidden_layers": depth, "max_position_embeddings": positions}
    draft = shared | {
        "block_size": block,
        "mask_token_id": draw(st.integers(0, shared["vocab_size"] - 1)),
        "max_position_embeddings": positions + draw(st.integers(0, 64)),
        "num_hidden_layers": len(ids),
        "num_target_layers": depth,
        "target_layer_ids": tuple(ids),
    }
    return draft, target


def mutated(name: str, draft: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """The draft with one field made wrong."""
    wrong: dict[str, Any] = {
        "max_position_embeddings": target["max_position_embeddings"] - 1,
        "rope_theta": draft["rope_theta"] * 1.001,
        "mask_token_id": target["vocab_size"],
        "target_layer_ids": (*draft["target_layer_ids"][:-1], target["num_hidden_layers"]),
    }
    return draft | {name: wrong[name] if name in wrong else draft[name] + 1}


MUTATIONS = {
    "hidden_size": "SD201",
    "num_target_layers": "SD202",
    "vocab_size": "SD203",
    "max_position_embeddings": "SD204",
    "rope_theta": "SD205",
    "target_layer_ids": "SD209",
    "mask_token_id": "SD210",
}
# Fields that a draft may have for itself; another value is told and served.
OWN = {
    "num_attention_heads": "SD211",
    "num_key_value_heads": "SD211",
    "head_dim": "SD211",
    "num_hidden_layers": "SD212",
}


@given(pair=pairs(), name=st.sampled_from(sorted(MUTATIONS)))
def test_one_wrong_field_fires_exactly_its_rule(
    pair: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    draft, target = pair
    assert judge_pair(make_pair(draft, target)).findings == ()
    outcome = judge_pair(make_pair(mutated(name, draft, target), target))
    assert errors(outcome) == [MUTATIONS[name]]


@given(pair=pairs(), name=st.sampled_from(sorted(OWN)))
def test_a_geometry_of_its_own_is_told_and_served(
    pair: tuple[dict[str, Any], dict[str, Any]], name: str
) -> None:
    draft, target = pair
    outcome = judge_pair(make_pair(mutated(name, draft, target), target))
    assert [f.rule for f in outcome.findings] == [OWN[name]]
    assert not outcome.refused


@settings(max_examples=200)
@given(
    left=pairs(),
    right=pairs(),
    length=st.none() | st.integers(1, 2**21),
    tokens=st.none() | st.integers(1, 64),
    dtype=st.sampled_from(("auto", "float16", "bfloat16", "float32")),
)
def test_any_two_models_are_judged_without_raising(
    left: tuple[dict[str, Any], dict[str, Any]],
    right: tuple[dict[str, Any], dict[str, Any]],
    length: int | None,
    tokens: int | None,
    dtype: str,
) -> None:
    pair = make_pair(left[0], right[1], Asked(dtype, length, tokens))
    outcome = judge_pair(pair)
    rules = [check.rule for check in outcome.checks]
    assert len(rules) == len(set(rules)) == 17
    draft, target = pair.draft.record, pair.target.record
    assert draft is not None
    assert target is not None
    if not outcome.refused:
        assert 0 < served_length(draft, target) <= target.max_position_embeddings
