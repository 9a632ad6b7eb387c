"""What holds for every plan, whatever the geometry, the budgets and the charges."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

import ast
import inspect
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server.config.geometry import KvGeometry
from server.memory import bill, kv_layout, planner, suggest
from server.memory.bill import Charges, Rank
from server.memory.kv_layout import KvLayout
from server.memory.planner import Plan, PlanRequest, Shortfall, plan
from server.memory.suggest import suggestions
from server.model.kv import KvPool, PoolShape
from server.report import LedgerLine
from server.weights.parts import Share

SIZES = st.integers(0, 2**36)
geometries = st.builds(
    KvGeometry,
    num_layers=st.integers(1, 64),
    num_kv_heads=st.sampled_from((1, 2, 4, 8, 16)),
    head_dim=st.sampled_from((16, 64, 128)),
    element_bytes=st.sampled_from((1, 2, 4)),
    scale_bytes=st.sampled_from((0, 4)),
)
layouts = st.builds(
    KvLayout,
    target=geometries,
    draft=st.none() | geometries,
    block_tokens=st.sampled_from((1, 16, 128)),
    tail_tokens=st.integers(0, 40),
)
charges = st.builds(Charges, **{f.name: st.integers(0, 2**31) for f in fields(Charges)})
ranks = st.builds(
    Rank,
    total_bytes=st.integers(2**32, 2**38),
    charges=charges,
    ceiling_bytes=st.none() | st.integers(2**32, 2**38),
)
requests = st.builds(
    PlanRequest,
    layout=layouts,
    utilization=st.sampled_from((1, 20, 333, 500, 900, 1000)).map(lambda n: Fraction(n, 1000)),
    ranks=st.lists(ranks, min_size=1, max_size=3).map(tuple),
    max_model_len=st.integers(1, 2**18),
    fit_length=st.booleans(),
    max_num_seqs=st.none() | st.integers(1, 64),
    kv_cache_bytes=st.none() | SIZES,
)


def on_budget(layout: KvLayout, budget_bytes: int, length: int) -> Plan | Shortfall:
    rank = Rank(budget_bytes)
    return plan(PlanRequest(layout, Fraction(1), (rank,), length))


def total(ledger: tuple[LedgerLine, ...]) -> int:
    return sum(line.billed_bytes for line in ledger)


@given(layouts, SIZES)
def test_i1_both_pools_and_a_leftover_smaller_than_a_block_are_the_grant(
    layout: KvLayout, budget_bytes: int
) -> None:
    found = on_budget(layout, budget_bytes, 1)
    if isinstance(found, Plan):
        tokens = found.num_blocks * layout.block_tokens
        target = tokens * layout.target.bytes_per_token
        draft = tokens * (layout.draft.bytes_per_token if layout.draft else 0)
        assert 0 <= budget_bytes - target - draft < layout.block_bytes


@given(layouts, SIZES, st.integers(0, 2**30))
def test_i2_more_budget_never_gives_fewer_blocks(
    layout: KvLayout, budget_bytes: int, more_bytes: int
) -> None:
    less, more = on_budget(layout, budget_bytes, 1), on_budget(layout, budget_bytes + more_bytes, 1)
    if isinstance(less, Plan):
        assert isinstance(more, Plan)
        assert more.num_blocks >= less.num_blocks


@given(requests, st.sampled_from([f.name for f in fields(Charges)]), st.integers(1, 2**34))
def test_i2_a_larger_charge_never_gives_more_blocks(
    request: PlanRequest, name: str, more_bytes: int
) -> None:
    larger = tuple(_charged(rank, name, more_bytes) for rank in request.ranks)
    before, after = plan(request), plan(replace(request, ranks=larger))
    if isinstance(after, Plan):
        assert isinstance(before, Plan)
        assert before.num_blocks >= after.num_blocks or request.fit_length


def _charged(rank: Rank, name: str, more_bytes: int) -> Rank:
    changed: Any = {name: getattr(rank.charges, name) + more_bytes}
    return replace(rank, charges=replace(rank.charges, **changed))


@given(layouts, st.integers(1, 2**18))
def test_i3_the_need_is_enough_and_a_byte_less_is_not(layout: KvLayout, length: int) -> None:
    need_bytes = layout.need_blocks(length) * layout.block_bytes
    assert isinstance(on_budget(layout, need_bytes, length), Plan)
    assert isinstance(on_budget(layout, need_bytes - 1, length), Shortfall)


@given(layouts, st.integers(2, 2**20))
def test_i4_the_longest_length_fits_and_one_token_more_does_not(
    layout: KvLayout, blocks: int
) -> None:
    longest, budget_bytes = layout.longest_tokens(blocks), blocks * layout.block_bytes
    if longest:
        assert isinstance(on_budget(layout, budget_bytes, longest), Plan)
    assert isinstance(on_budget(layout, budget_bytes, longest + 1), Shortfall)


@given(st.integers(1, 64), st.integers(1, 64))
def test_i5_ranks_together_hold_at_least_the_whole(heads: int, ranks: int) -> None:
    if heads % ranks and ranks % heads:
        with pytest.raises(ValueError, match="KV heads over"):
            Share(0, ranks).kv_heads(heads)
        return
    kept = [head for rank in range(ranks) for head in Share(rank, ranks).kv_heads(heads)]
    assert kept == sorted(kept)
    assert set(kept) == set(range(heads))
    assert (len(kept) == heads) == (ranks <= heads)


@given(requests)
def test_i6_the_pool_fits_on_every_rank_and_the_limiting_rank_holds_no_more(
    request: PlanRequest,
) -> None:
    found = plan(replace(request, max_num_seqs=None, kv_cache_bytes=None))
    if isinstance(found, Plan):
        grants = [rank.granted_bytes(request.utilization) for rank in request.ranks]
        assert all(found.pool_bytes <= grant for grant in grants)
        left = grants[found.limiting_rank] - found.pool_bytes
        assert left < request.layout.block_bytes


@given(
    st.sampled_from((torch.bfloat16, torch.float16, torch.float32)),
    geometries,
    st.none() | geometries,
    st.integers(2, 1000),
)
def test_i7_the_allocator_takes_what_was_billed(
    dtype: torch.dtype, target: KvGeometry, draft: KvGeometry | None, blocks: int
) -> None:
    stored: dict[str, Any] = {"element_bytes": dtype.itemsize, "scale_bytes": 0}
    target = replace(target, **stored)
    draft = replace(draft, **stored) if draft else None
    layout = KvLayout(target, draft)
    found = on_budget(layout, blocks * layout.block_bytes, 1)
    assert isinstance(found, Plan)
    shape = PoolShape(target, draft, found.num_blocks, layout.block_tokens)
    pool = KvPool.allocate(shape, dtype, torch.device("meta"))
    taken = sum(t.untyped_storage().nbytes() for t in (pool.target, pool.draft) if t is not None)
    assert taken == total(found.ledger) - found.ledger[-1].billed_bytes


@pytest.mark.parametrize("module", [bill, kv_layout, planner, suggest])
def test_i8_the_planner_has_no_float_and_no_true_division(module: Any) -> None:
    nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
    assert not [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    assert not [n for n in nodes if isinstance(n, ast.Div)]
    assert not [n for n in nodes if isinstance(n, ast.Name) and n.id == "float"]


@given(requests)
def test_i8_i9_i14_ledger_lines_are_integers_sum_to_the_limit_and_are_never_negative(
    request: PlanRequest,
) -> None:
    found = plan(request)
    assert all(type(line.billed_bytes) is int for line in found.ledger)
    assert all(line.billed_bytes >= 0 for line in found.ledger)
    assert [line.line for line in found.ledger[-2:]] == ["KV pool", "unused"]
    if isinstance(found, Plan):
        assert total(found.ledger) == found.limit_bytes
    else:
        needed = found.rank.charges.fixed_bytes + found.need_bytes
        assert total(found.ledger) == max(found.limit_bytes, needed)
        assert found.missing_bytes > 0
        assert min(found.have_blocks, found.have_bytes, found.longest_tokens) >= 0


@given(layouts, SIZES)
def test_i10_a_drafter_of_no_layers_costs_only_its_tail(
    layout: KvLayout, budget_bytes: int
) -> None:
    none = replace(layout, draft=None)
    empty = replace(layout, draft=replace(layout.target, num_layers=0))
    first, second = on_budget(none, budget_bytes, 1), on_budget(empty, budget_bytes, 1)
    assert first.ledger == second.ledger
    assert none.need_blocks(7) == empty.need_blocks(7)


@given(layouts, geometries, geometries)
def test_i11_the_drafts_cost_moves_with_the_draft_only(
    layout: KvLayout, target: KvGeometry, draft: KvGeometry
) -> None:
    first, other = replace(layout, draft=draft), replace(layout, target=target, draft=draft)
    found, moved = on_budget(first, 2**40, 1), on_budget(other, 2**40, 1)
    assert isinstance(found, Plan)
    assert isinstance(moved, Plan)
    assert found.kv.draft_bytes_per_token == moved.kv.draft_bytes_per_token
    assert found.kv.target_bytes_per_token == layout.target.bytes_per_token
    assert moved.kv.target_bytes_per_token == target.bytes_per_token


@given(requests)
def test_i13_every_suggestion_is_accepted_when_it_is_applied(request: PlanRequest) -> None:
    found = plan(request)
    if isinstance(found, Shortfall):
        for suggestion in suggestions(found, request.ranks):
            assert isinstance(plan(suggestion.request), Plan)
            assert not suggest.busy(suggestion.request)
            assert suggestion.request != request


@given(requests)
def test_the_pool_is_no_larger_than_its_requests_can_use(request: PlanRequest) -> None:
    found = plan(replace(request, kv_cache_bytes=None, max_num_seqs=3))
    uncapped = plan(replace(request, kv_cache_bytes=None, max_num_seqs=None))
    if isinstance(found, Plan) and isinstance(uncapped, Plan):
        usable = 3 * request.layout.blocks_per_request(found.max_model_len)
        assert found.num_blocks == min(uncapped.num_blocks, 1 + usable)
