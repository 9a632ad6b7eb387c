"""From an admission to a proven KV pool: device, weights, profile, pool, self-test, ledger.

Each function takes what only the one before can make. Torch is imported from `open_device` on.
"""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from server.admission import Admission
from server.config.records import BlockDraft, TargetConfig
from server.config.rules import finding
from server.ending import Council
from server.findings import Finding, Location, Outcome, outcome_of
from server.log import Log
from server.memory.device import open_device as open_source
from server.memory.facts import DeviceFacts, DeviceKind, Machine, find_device
from server.memory.gates import Measured, gate_a, gate_b, measured_rank
from server.memory.kv_dtype import judge_converted, judge_stored, kv_settings, stored_layout
from server.memory.need import Need, WeightBytes, need_of
from server.memory.shape import RunShape, resolve_shape, resolve_utilization
from server.memory.source import MemorySource
from server.memory.units import fraction_text
from server.options import MAPPED, Options
from server.report import NOT_TOUCHED, SettingFacts
from server.seats import ALONE, Seat
from server.weights.judge import LoadPlan, resident_bytes
from server.weights.parts import Share, part_config, part_plan

if TYPE_CHECKING:
    from server.memory.allocate import AllocatedPool
    from server.memory.planner import Plan
    from server.memory.profile import Models, Profile, Workload
    from server.model.parallel import Group


@dataclass(frozen=True, slots=True)
class Placed:
    """An admitted pair and the device that is to hold it; nothing is loaded yet.

    `plans` are what this rank is to read, in this order: target, then draft.
    """

    admission: Admission
    options: Options
    facts: DeviceFacts
    need: Need
    dtype: str
    plans: tuple[LoadPlan, ...]
    seat: Seat = ALONE


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened device, and the largest step that it is to run."""

    placed: Placed
    source: MemorySource
    shape: RunShape
    group: "Group"


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


def place(admission: Admission, options: Options, log: Log, seat: Seat = ALONE) -> Placed:
    """Choose the device without touching it, and refuse what can never fit there."""
    machine = Machine(sharers=seat.sharers)
    facts = log.obtain(*find_device(seat.device(options.device), os.environ, machine))
    if seat.launches and facts.kind is DeviceKind.CUDA:
        log.require(_device_for_each(seat, machine))
    placed = on_device(facts, admission, options, log, seat)
    _first_gate(placed, log)
    return placed


def on_device(
    facts: DeviceFacts, admission: Admission, options: Options, log: Log, seat: Seat = ALONE
) -> Placed:
    """What the rank at `seat` needs of this device, and the settings that are in force there."""
    dtype = admission.target_plan.dtype if options.dtype == "auto" else options.dtype
    target, draft, plans = _parts(admission, Share(seat.rank, seat.world))
    weights = WeightBytes(*(resident_bytes(plan, dtype) for plan in plans))
    need = need_of(target, draft, weights, dtype, options.kv_block_size)
    need = replace(need, layout=stored_layout(need.layout, options, dtype))
    log.report.settings |= kv_settings(need.layout, options)
    source = "the target's weights" if options.dtype == "auto" else options.source("dtype")
    log.report.settings["dtype"] = SettingFacts(dtype, source)
    placed = Placed(admission, _within(options, facts, log), facts, need, dtype, plans, seat)
    log.require(_mappable(placed))
    log.require(_conflicts(judge_stored(options, dtype)))
    return placed


def _device_for_each(seat: Seat, machine: Machine) -> Outcome:
    """SD601: a rank has no device. The launcher tells it, before any rank is started."""
    for rank in range(1, seat.world):
        _, outcome = find_device(f"{DeviceKind.CUDA}:{rank}", os.environ, machine)
        if outcome.refused:
            fix = f"make {seat.world} devices visible, or use fewer ranks, or --device cpu"
            told = (found._replace(fix=fix) for found in outcome.findings)
            return outcome_of("SD601", told)
    return Outcome()


def seated(placed: Placed, seat: Seat, log: Log) -> Placed:
    """What the launcher placed, for the rank at `seat`: rank 0 has the launcher's device."""
    if seat.speaks:
        return replace(placed, seat=seat)
    return place(placed.admission, placed.options, log, seat)


def _parts(
    admission: Admission, share: Share
) -> tuple[TargetConfig, BlockDraft | None, tuple[LoadPlan, ...]]:
    """What one rank has of both models: the geometry of its layers, and what it reads."""
    target, draft = admission.target, admission.draft
    plans = [part_plan(admission.target_plan, target, share)]
    if draft is None or admission.draft_plan is None:
        return part_config(target, share), None, tuple(plans)
    plans.append(part_plan(admission.draft_plan, draft, share))
    return part_config(target, share), part_config(draft, share), tuple(plans)


def open_device(placed: Placed, log: Log) -> Opened:
    """Import torch, open the device, and judge the fit again by its own totals."""
    source = log.obtain(*open_source(placed.facts, Machine(sharers=placed.seat.sharers)))
    log.report.not_done.remove(NOT_TOUCHED)
    options = _within(placed.options, source.facts, log)
    placed = replace(placed, options=options, facts=source.facts)
    log.require(_mappable(placed))
    log.require(_conflicts(judge_converted(placed.need.layout, source)))
    _first_gate(placed, log)
    shape = resolve_shape(options, source.facts, placed.admission.draft)
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
    from server.peers import open_group

    return replace(opened, group=open_group(council, opened.source, log))


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
        figures = replace(figures, ranks=ranks)
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


def _within(options: Options, facts: DeviceFacts, log: Log) -> Options:
    """The options with the utilization that is in force on this device."""
    name = "gpu_memory_utilization"
    utilization, source = resolve_utilization(options, facts)
    log.report.settings[name] = SettingFacts(fraction_text(utilization), source)
    sources = {**options.sources, name: source}
    return replace(options, gpu_memory_utilization=utilization, sources=sources)


def _mappable(placed: Placed) -> Outcome:
    """SD705: --weights mapped, and weights that a mapping cannot give."""
    if placed.options.weights != MAPPED:
        return Outcome()
    faults = [
        f"the {plan.role}'s {plan.dtype} is to be converted to {placed.dtype}"
        for plan in placed.plans
        if plan.dtype != placed.dtype
    ]
    if placed.facts.kind is DeviceKind.CUDA:
        faults = [f"the device is {placed.facts.label}"]
    where = Location("setting", flag="--weights", value=MAPPED)
    return _conflicts(
        finding("SD705", f"--weights is mapped, and {fault}", where) for fault in faults
    )


def _conflicts(told: Iterable[Finding]) -> Outcome:
    """The findings of SD705; without any, the command line has passed it already."""
    found = tuple(told)
    return outcome_of("SD705", found) if found else Outcome()


def _first_gate(placed: Placed, log: Log) -> None:
    decided = gate_a(placed.facts, placed.need, placed.options)
    log.report.memory = decided.memory
    log.require(decided.outcome)
