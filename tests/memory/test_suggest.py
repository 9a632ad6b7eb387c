"""Advice: only what was tried, with the values that were tried."""

from dataclasses import replace
from fractions import Fraction

import pytest

from server.memory.bill import Charges, Rank
from server.memory.planner import Cause, Plan, plan
from server.memory.suggest import calmer, suggestions
from tests.memory.make import ALONE, GIB, PAIR, make_plan, make_request, make_shortfall

NEED_BYTES = 6_042_157_056  # one request of 40,960 tokens, no drafter


def texts(total_bytes: int, length: int, **more: object) -> list[str]:
    found = make_shortfall(ALONE, total_bytes, length, **more)
    return [s.text for s in suggestions(found, found.request.ranks)]


def test_a_shorter_length_and_a_higher_utilization_are_offered_where_each_works() -> None:
    assert texts(10 * GIB, 40_960, utilization=Fraction("0.5")) == [
        "--max-model-len 36384",
        "--gpu-memory-utilization 0.57",
    ]


def test_utilization_is_not_offered_when_one_is_not_enough() -> None:
    assert texts(NEED_BYTES - 1, 40_960, utilization=Fraction("0.99")) == ["--max-model-len 40544"]


def test_utilization_is_not_offered_when_others_hold_the_memory() -> None:
    rank = Rank(10 * GIB, Charges(), 5 * GIB)
    found = make_shortfall(ALONE, 0, 40_960, utilization=Fraction("0.5"), ranks=(rank,))
    assert [s.flag for s in suggestions(found, (rank,))] == ["--max-model-len"]


def test_nothing_is_offered_when_not_even_one_token_fits() -> None:
    assert texts(2 * ALONE.block_bytes - 1, 40_960) == []


def test_the_operators_pool_is_corrected_in_either_direction() -> None:
    too_small = texts(10 * GIB, 40_960, kv_cache_bytes=NEED_BYTES - 1)
    assert too_small == ["--max-model-len 40944", f"--kv-cache-memory-bytes {NEED_BYTES}"]
    too_large = texts(10 * GIB, 40_960, kv_cache_bytes=11 * GIB)
    assert too_large == [
        f"--kv-cache-memory-bytes {4_551 * 2_359_296}",
        f"--kv-cache-memory-bytes {NEED_BYTES}",
    ]


def test_the_operators_pool_is_taken_as_it_is_and_not_capped() -> None:
    found = make_plan(ALONE, 10 * GIB, 1024, kv_cache_bytes=NEED_BYTES, max_num_seqs=1)
    assert found.num_blocks == 2_561
    assert make_plan(ALONE, 10 * GIB, 1024, max_num_seqs=1).num_blocks == 65


def test_a_busy_device_is_told_apart_from_a_small_one() -> None:
    tight = Rank(10 * GIB, Charges(), NEED_BYTES - 1)
    assert make_shortfall(ALONE, 0, 40_960, ranks=(tight,)).cause is Cause.BUSY
    roomy = Rank(10 * GIB, Charges(), NEED_BYTES)
    assert isinstance(plan(make_request(ALONE, 0, 40_960, ranks=(roomy,))), Plan)
    weights = Rank(10 * GIB, Charges(target_weights_bytes=10 * GIB + 1), 0)
    assert make_shortfall(ALONE, 0, 40_960, ranks=(weights,)).cause is Cause.WEIGHTS


def test_no_calmer_utilization_when_the_smaller_limit_does_not_fit_the_need() -> None:
    rank = Rank(10 * GIB, Charges(), 3 * GIB)
    assert calmer(make_request(PAIR, 0, 40_944, ranks=(rank,))) is None
    found = calmer(make_request(PAIR, 0, 8_192, ranks=(rank,)))
    assert found is not None
    assert found.text == "--gpu-memory-utilization 0.3"


@pytest.mark.parametrize(
    ("blocks", "wanted", "fitted"),
    [
        (100, 40_944, 1_568),  # 99 blocks less a tail of 7 are 1,577 tokens: whole blocks
        (100, 1_577, 1_577),  # the model's own limit binds, and is not rounded
        (2, 40_944, 9),  # less than a block, and still served
    ],
)
def test_a_fitted_length_is_rounded_down_to_a_block(blocks: int, wanted: int, fitted: int) -> None:
    layout = replace(PAIR, tail_tokens=7)
    found = make_plan(layout, blocks * layout.block_bytes, wanted, fit_length=True)
    assert found.max_model_len == fitted
