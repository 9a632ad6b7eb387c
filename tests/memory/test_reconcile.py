"""Allocation and reconciliation: what was billed against what is there."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
import torch

from server.memory import allocate
from server.memory.allocate import AllocatedPool, allocate_pool
from server.memory.bill import Charges, Rank
from server.memory.gates import GateResult, Measured, gate_b
from server.memory.host_source import RESIDENT_NOISE_BYTES
from server.memory.need import Need, WeightBytes, need_of
from server.memory.planner import Plan, PlanRequest, plan
from server.memory.profile import Models, Workload
from server.memory.reconcile import reconcile, storage_bytes
from server.memory.shape import RunShape
from server.memory.source import Taken
from server.memory.units import bytes_text
from server.model.steps import StepShape
from server.report import MemoryFacts
from tests.memory.fake_machine import MIB
from tests.memory.make import FixedSource, errors, make_facts, make_options, only, rules
from tests.memory.test_profile import allocating, make_host, make_models
from tests.model.tiny import make_draft, make_target_config

SHAPE = StepShape(prefill_tokens=32, num_seqs=2, verify_tokens=5, max_model_len=64)
TOTAL = 500 * MIB
RUNTIME = 100 * MIB


class Boot(NamedTuple):
    models: Models
    pool: AllocatedPool
    work: Workload


def make_need(models: Models, draft_weights: int | None = None) -> Need:
    draft = make_draft() if models.drafter else None
    drafted = storage_bytes(models.drafter) if models.drafter else 0
    weights = WeightBytes(storage_bytes(models.target), draft_weights or drafted)
    return need_of(make_target_config(), draft, weights, "float32", 4)


def planned(need: Need, **options: Any) -> tuple[Plan, MemoryFacts]:
    facts = make_facts(total_bytes=TOTAL, free_bytes=TOTAL)
    measured = Measured(RUNTIME, 2 * MIB, TOTAL - RUNTIME)
    options = {"gpu_memory_utilization": Fraction(1), "max_model_len": 64, **options}
    result: GateResult = gate_b(
        facts, need, make_options(**options), RunShape(32, 2, 4, {}), measured
    )
    assert result.plan is not None
    assert result.memory is not None
    return result.plan, result.memory


def booted(
    need: Need, models: Models, run: Callable[..., None] | None = None, **options: Any
) -> tuple[Plan, MemoryFacts, Boot]:
    found, facts = planned(need, **options)
    allocated, outcome = allocate_pool(make_host(), found, torch.float32)
    assert errors(outcome) == []
    assert allocated is not None
    work = Workload(need.layout, SHAPE, run or allocating(2, 1))
    return found, facts, Boot(models, allocated, work)


def source_with(used_bytes: int, growth: int = 2 * MIB, noise: int = 0) -> FixedSource:
    facts = make_facts(total_bytes=TOTAL)
    source = FixedSource(facts, free=[TOTAL - used_bytes], used=[used_bytes], growth=(growth,))
    source.noise_bytes = noise
    return source


def reconciled(
    off_by: int = 0,
    need_change: int = 0,
    growth: int = 2 * MIB,
    taken: Taken | None = None,
    noise: int = 0,
) -> tuple[MemoryFacts, list[str], str]:
    """A boot whose figures agree but for the given differences."""
    models, _ = make_models()
    drafted = storage_bytes(models.drafter) if models.drafter else 0
    need = make_need(models, drafted + need_change)
    plan_, facts, boot = booted(need, models)
    taken = taken or Taken(plan_.pool_bytes)
    boot = boot._replace(pool=replace(boot.pool, taken=taken))
    kept = storage_bytes(models.target) + drafted + taken.allocated_bytes
    source = source_with(RUNTIME + kept + off_by, growth, noise)
    facts, outcome = reconcile(source, facts, *boot)
    messages = " ".join(f.message for f in outcome.findings)
    return facts, rules(outcome), messages


def test_every_line_that_can_be_measured_is_and_all_agree() -> None:
    facts, found, _ = reconciled()
    assert found == []
    assert facts.unexplained_bytes == 0
    differences = {line.line: line.difference_bytes for line in facts.ledger}
    assert differences == {
        "runtime": 0,
        "target weights": 0,
        "draft weights": 0,
        "activation": 0,
        "margin": None,
        "KV pool": 0,
        "unused": None,
    }
    assert sum(line.billed_bytes for line in facts.ledger) == facts.limit_bytes


@pytest.mark.parametrize("sign", [1, -1])
def test_sd507_one_byte_more_than_1_percent_of_the_limit_is_unexplained(sign: int) -> None:
    facts, found, _ = reconciled(off_by=sign * TOTAL // 100)
    assert found == []
    assert facts.unexplained_bytes == sign * TOTAL // 100
    facts, found, message = reconciled(off_by=sign * (TOTAL // 100 + 1))
    assert found == ["SD507"]
    assert "this server uses" in message
    runtime = facts.ledger[0]
    assert runtime.difference_bytes == facts.unexplained_bytes


def test_sd508_weights_that_differ_from_the_headers() -> None:
    models, _ = make_models()
    assert models.drafter is not None
    one_percent = storage_bytes(models.drafter) // 100
    assert reconciled(need_change=one_percent)[1] == []
    facts, found, message = reconciled(need_change=one_percent * 2)
    assert found == ["SD508"]
    assert message.startswith("draft weights: billed ")
    assert facts.ledger[2].difference_bytes == -one_percent * 2


@pytest.mark.parametrize(("more", "expected"), [(16 * MIB, []), (16 * MIB + 1, ["SD508"])])
def test_sd508_a_pool_that_took_more_than_the_allocators_rounding(
    more: int, expected: list[str]
) -> None:
    pool_bytes = planned(make_need(make_models()[0]))[0].pool_bytes
    assert reconciled(taken=Taken(pool_bytes + more))[1] == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_sd508_resident_memory_that_contradicts_the_allocator(sign: int) -> None:
    pool_bytes = planned(make_need(make_models()[0]))[0].pool_bytes
    noise = pool_bytes // 2
    held = pool_bytes + sign * noise
    assert reconciled(taken=Taken(pool_bytes, held), noise=noise)[1] == []
    _, found, message = reconciled(taken=Taken(pool_bytes, held + sign), noise=noise)
    assert found == ["SD508"]
    allocated, resident = bytes_text(pool_bytes), bytes_text(held + sign)
    told = f"KV pool: torch allocated {allocated}, resident memory grew by {resident}"
    assert message == told


def test_sd507_what_is_within_the_noise_of_the_source_is_not_unexplained() -> None:
    noise = TOTAL // 100 + 5
    assert reconciled(off_by=-noise, noise=noise)[1] == []
    assert reconciled(off_by=-noise - 1, noise=noise)[1] == ["SD507"]


@pytest.mark.parametrize(
    ("growth", "noise", "expected"),
    [
        (18 * MIB, 0, []),
        (18 * MIB + 1, 0, ["SD508"]),
        (0, 0, []),
        # A peak that is resident memory in one run may be within the noise in the other.
        (18 * MIB + 1, 1, []),
        (18 * MIB + 2, 1, ["SD508"]),
    ],
)
def test_sd508_a_step_that_takes_more_beside_the_real_pool(
    growth: int, noise: int, expected: list[str]
) -> None:
    facts, found, _ = reconciled(growth=growth, noise=noise)
    assert found == expected
    assert {line.line: line.measured_bytes for line in facts.ledger}["activation"] == growth


def test_sd504_when_the_step_no_longer_runs_beside_the_pool() -> None:
    models, _ = make_models()

    def run(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    _, facts, boot = booted(make_need(models), models, run)
    same, outcome = reconcile(source_with(RUNTIME), facts, *boot)
    assert same == facts
    assert errors(outcome) == ["SD504"]


def test_the_real_step_on_the_real_host_agrees() -> None:
    models, layout = make_models()
    source = make_host()
    need = make_need(models)
    source.settle()
    runtime = source.used_by_us_bytes() - storage_bytes(models.target)
    facts = make_facts(total_bytes=(source.facts.total_bytes or 0), free_bytes=source.free_bytes())
    measured = Measured(runtime, MIB, source.free_bytes())
    options = make_options(max_model_len=64, kv_cache_memory_bytes=192 * MIB)
    decided = gate_b(facts, need, options, RunShape(32, 2, 4, {}), measured)
    assert decided.plan is not None
    assert decided.memory is not None
    allocated, _ = allocate_pool(source, decided.plan, torch.float32)
    assert allocated is not None
    assert allocated.taken.allocated_bytes == decided.plan.pool_bytes
    boot = Boot(models, allocated, Workload(layout, SHAPE))
    told, outcome = reconcile(source, decided.memory, *boot)
    assert rules(outcome) == []
    assert told.unexplained_bytes is not None
    # Resident memory, which moves by itself: a pool that is not there would show all the same.
    assert abs(told.unexplained_bytes) < RESIDENT_NOISE_BYTES


@pytest.mark.parametrize(("written", "expected"), [(True, []), (False, ["SD508"])])
def test_a_pool_is_there_only_when_the_kernel_says_so_too(
    monkeypatch: pytest.MonkeyPatch, written: bool, expected: list[str]
) -> None:
    """Host memory that nobody wrote is not there, whatever the allocator says."""
    if not written:
        monkeypatch.setattr(allocate, "zero", lambda _: None)
    models, _ = make_models()
    need = make_need(models)
    plan_, facts, boot = booted(need, models, kv_cache_memory_bytes=192 * MIB)
    assert boot.pool.taken.allocated_bytes == plan_.pool_bytes
    kept = need.weights.target_bytes + need.weights.draft_bytes + plan_.pool_bytes
    source = source_with(RUNTIME + kept, noise=RESIDENT_NOISE_BYTES)
    assert rules(reconcile(source, facts, *boot)[1]) == expected


def test_shared_storages_are_counted_once() -> None:
    shared = torch.nn.Linear(8, 8, bias=False)
    twice = torch.nn.ModuleList([shared, torch.nn.Linear(8, 8, bias=False)])
    assert storage_bytes(twice) == 2 * 8 * 8 * 4
    twice[1].weight = shared.weight
    assert storage_bytes(twice) == 8 * 8 * 4


def test_the_pool_is_zero_and_as_planned() -> None:
    models, _ = make_models()
    found, _, boot = booted(make_need(models), models)
    pool = boot.pool.pool
    assert pool.nbytes == found.pool_bytes
    assert pool.shape.num_blocks == found.num_blocks == 1 + 2 * 18
    assert not pool.target.any()
    assert pool.draft is not None
    assert not pool.draft.any()


def test_sd509_a_pool_that_the_device_refuses() -> None:
    models, _ = make_models()
    layout = make_need(models).layout
    huge = PlanRequest(layout, Fraction(1), (Rank(2**60, Charges()),), 64)
    found = plan(huge)
    assert isinstance(found, Plan)
    pool, outcome = allocate_pool(make_host(), found, torch.float32)
    assert pool is None
    assert errors(outcome) == ["SD509"]
    assert "the KV pool of 1048576.00 TiB was refused" in only(outcome).message
    fits = plan(replace(huge, ranks=(Rank(2**20, Charges()),)))
    assert isinstance(fits, Plan)
    pool, outcome = allocate_pool(make_host(), fits, torch.float32)
    assert isinstance(pool, AllocatedPool)
    assert outcome.findings == ()


def test_another_error_of_the_allocation_passes_through() -> None:
    models, _ = make_models()
    found, _ = planned(make_need(models))
    with pytest.raises(ValueError, match="planned with"):
        allocate_pool(make_host(), found, torch.float16)
