"""From a placed pair to a proven KV pool: device, profile, pool, self-test, ledger.

Each function takes what only the one before can make. Torch is imported from `open_device` on.
"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from server.config.rules import finding
from server.ending import Council
from server.findings import outcome_of
from server.log import Log
from server.memory.device import open_device as open_source
from server.memory.facts import DeviceFacts, Machine
from server.memory.gates import Measured, gate_b, measured_rank
from server.memory.shape import RunShape, resolve_shape
from server.memory.source import MemorySource
from server.placing import Placed, place_again
from server.report import NOT_TOUCHED, SettingFacts

if TYPE_CHECKING:
    from server.memory.allocate import AllocatedPool
    from server.memory.planner import Plan
    from server.memory.profile import Models, Profile, Workload
    from server.model.parallel import Group


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened device, the largest step that it is to run, and the ranks that compute it.

    `devices` are those of all ranks, where there are several.
    """

    placed: Placed
    source: MemorySource
    shape: RunShape
    group: "Group"
    devices: tuple[DeviceFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Both models, resident, and what this process held before their first weight."""

    opened: Opened
    models: "Models"
    runtime_bytes: int


@dataclass(frozen=True, slots=True)
class Profiled:
    """The measured worst step."""

    loaded: Loaded
    work: "Workload"
    measured: "Profile"


@dataclass(frozen=True, slots=True)
class Pooled:
    """The allocated pool, with the plan that it was taken from."""

    profiled: Profiled
    plan: "Plan"
    pool: "AllocatedPool"


def open_device(placed: Placed, log: Log) -> Opened:
    """Import torch, open the device, and judge the fit again by its own totals."""
    source = log.obtain(*open_source(placed.facts, Machine(sharers=placed.seat.sharers)))
    log.report.not_done.remove(NOT_TOUCHED)
    placed = place_again(placed, source, log)
    shape = resolve_shape(placed.options, source.facts, placed.admission.draft)
    settings = log.report.settings
    settings["device"] = SettingFacts(source.facts.label, source.facts.reason)
    for name, value in (
        ("max_num_batched_tokens", shape.max_num_batched_tokens),
        ("max_num_seqs", shape.max_num_seqs),
        ("num_speculative_tokens", shape.draft_tokens),
    ):
        settings[name] = SettingFacts(value, shape.sources[name])
    from server.model.parallel import ONE_RANK

    return Opened(placed, source, shape, ONE_RANK)


def join(opened: Opened, council: Council, log: Log) -> Opened:
    """Meet the other ranks, and open the way by which they compute together."""
    from server.peers import devices_of_all, open_group

    group = open_group(council, opened.source, log)
    return replace(opened, group=group, devices=devices_of_all(council))


def profile(loaded: Loaded, log: Log) -> Profiled:
    """Run the worst step, once to warm up and once measured."""
    from server.memory.profile import Workload, step_shape
    from server.memory.profile import profile as measure

    opened = loaded.opened
    options, need = opened.placed.options, opened.placed.need
    longest = options.max_model_len or need.limit_tokens
    work = Workload(need.layout, step_shape(opened.shape, longest))
    margin_bytes = options.memory_margin_bytes
    found = log.obtain(*measure(opened.source, loaded.models, work, margin_bytes))
    return Profiled(loaded, work, found)


def allocate(profiled: Profiled, log: Log) -> Pooled:
    """Size the pool from what was measured, and take it from the device."""
    from server.memory.allocate import allocate_pool

    opened, models = profiled.loaded.opened, profiled.loaded.models
    placed, measured = opened.placed, profiled.measured
    figures = Measured(
        runtime_bytes=profiled.loaded.runtime_bytes + measured.runtime_growth_bytes,
        activation_bytes=measured.activation_bytes,
        free_bytes=measured.free_bytes,
    )
    options = placed.options
    if placed.seat.world > 1:
        from server.peers import figures_of_all

        own = measured_rank(placed.facts, placed.need, options, figures)
        ranks, lowest = figures_of_all(opened.group, own, options.gpu_memory_utilization)
        options = replace(options, gpu_memory_utilization=lowest)
        figures = replace(figures, ranks=ranks, devices=opened.devices)
    decided = gate_b(placed.facts, placed.need, options, opened.shape, figures)
    log.report.memory = decided.memory
    plan = log.obtain(decided.plan, decided.outcome)
    if figures.ranks and decided.memory is not None:
        from server.peers import own_memory

        log.report.memory = own_memory(decided.memory, plan, placed.seat.rank)
    pool = log.obtain(*allocate_pool(opened.source, plan, models.target.dtype))
    asked = placed.options.source("max_model_len")
    by_plan = "fitted to the pool" if placed.options.auto_max_model_len else "the models' positions"
    source = by_plan if placed.options.max_model_len is None else asked
    log.report.settings["max_model_len"] = SettingFacts(plan.max_model_len, source)
    return Pooled(profiled, plan, pool)


def self_test(pooled: Pooled, log: Log) -> Pooled:
    """Decode a few tokens with and without the pool, and by speculation: all must agree."""
    from server.model.selftest import SelfTestFailed
    from server.model.selftest import self_test as prove

    models, opened = pooled.profiled.loaded.models, pooled.profiled.loaded.opened
    draft_tokens = opened.shape.draft_tokens or None
    try:
        proof = prove(
            models.target, models.drafter, pooled.pool.pool, pooled.plan.max_model_len, draft_tokens
        )
    except SelfTestFailed as error:
        log.require(outcome_of("SD510", [finding("SD510", str(error))]))
        raise
    log.tell(outcome_of("SD510", ()))
    log.report.self_test = asdict(proof)
    return pooled


def reconcile(pooled: Pooled, log: Log, council: Council | None = None) -> Pooled:
    """Compare every billed byte with what was measured, on each rank."""
    from server.memory.reconcile import reconcile as compare

    if log.report.memory is None:
        raise RuntimeError("there is no bill to reconcile")
    loaded, work = pooled.profiled.loaded, pooled.profiled.work
    log.report.memory, outcome = compare(
        loaded.opened.source, log.report.memory, loaded.models, pooled.pool, work
    )
    log.require(outcome)
    if council is not None:
        from server.peers import gather_memory

        gather_memory(council, log)
    return pooled
