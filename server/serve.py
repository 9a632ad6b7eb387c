"""From an admission to a proven KV pool: device, weights, profile, pool, self-test, ledger.

Each function takes what only the one before can make. Torch is imported from `open_device` on.
"""

import io
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from server.admission import Admission
from server.config.rules import finding
from server.findings import Location, outcome_of
from server.log import Log
from server.memory.device import open_device as open_source
from server.memory.facts import DeviceFacts, find_device
from server.memory.gates import Measured, gate_a, gate_b
from server.memory.need import Need, WeightBytes, need_of
from server.memory.shape import RunShape, resolve_shape, resolve_utilization
from server.memory.source import MemorySource
from server.memory.units import fraction_text
from server.options import Options
from server.report import NOT_LOADED, NOT_TOUCHED, SettingFacts
from server.weights.judge import LoadPlan, resident_bytes
from server.weights.progress import Meter

if TYPE_CHECKING:
    from torch import nn

    from server.memory.allocate import AllocatedPool
    from server.memory.planner import Plan
    from server.memory.profile import Models, Profile, Workload


@dataclass(frozen=True, slots=True)
class Placed:
    """An admitted pair and the device that is to hold it; nothing is loaded yet."""

    admission: Admission
    options: Options
    facts: DeviceFacts
    need: Need
    dtype: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened device, and the largest step that it is to run."""

    placed: Placed
    source: MemorySource
    shape: RunShape


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


def place(admission: Admission, options: Options, log: Log) -> Placed:
    """Choose the device without touching it, and refuse what can never fit there."""
    facts = log.obtain(*find_device(options.device, os.environ))
    dtype = admission.target_plan.dtype if options.dtype == "auto" else options.dtype
    draft_plan = admission.draft_plan
    weights = WeightBytes(
        resident_bytes(admission.target_plan, dtype),
        resident_bytes(draft_plan, dtype) if draft_plan else 0,
    )
    need = need_of(admission.target, admission.draft, weights, dtype, options.kv_block_size)
    source = "the target's weights" if options.dtype == "auto" else options.source("dtype")
    log.report.settings["dtype"] = SettingFacts(dtype, source)
    placed = Placed(admission, _within(options, facts, log), facts, need, dtype)
    _first_gate(placed, log)
    return placed


def open_device(placed: Placed, log: Log) -> Opened:
    """Import torch, open the device, and judge the fit again by its own totals."""
    source = log.obtain(*open_source(placed.facts))
    log.report.not_done.remove(NOT_TOUCHED)
    admission = placed.admission
    options = _within(placed.options, source.facts, log)
    placed = Placed(admission, options, source.facts, placed.need, placed.dtype)
    _first_gate(placed, log)
    shape = resolve_shape(options, source.facts, admission.draft)
    settings = log.report.settings
    settings["device"] = SettingFacts(source.facts.label, source.facts.reason)
    for name, value in (
        ("max_num_batched_tokens", shape.max_num_batched_tokens),
        ("max_num_seqs", shape.max_num_seqs),
        ("num_speculative_tokens", shape.draft_tokens),
    ):
        settings[name] = SettingFacts(value, shape.sources[name])
    return Opened(placed, source, shape)


def load(opened: Opened, log: Log) -> Loaded:
    """Read target, then draft, straight into their final tensors."""
    from server.memory.oom import first_line, out_of_memory
    from server.memory.profile import Models
    from server.model.build import build_drafter, build_target
    from server.weights.load import LoadError

    admission = opened.placed.admission
    drafter = None
    target = build_target(admission.target)
    if admission.draft is not None:
        drafter = build_drafter(admission.draft, admission.target.hidden_size)
    # Only now has torch imported what it needs to build: that is runtime, not weights.
    opened.source.settle()
    runtime_bytes = opened.source.used_by_us_bytes()
    try:
        _fill(target, admission.target_plan, opened, log)
        if drafter is not None and admission.draft_plan is not None:
            _fill(drafter, admission.draft_plan, opened, log)
    except LoadError as error:
        tensor = f"tensor {error.tensor} " if error.tensor else ""
        where = Location("weights", file=str(error.file), has_value=False)
        message = f"{tensor}{error.message}"
        log.require(outcome_of(error.rule, [finding(error.rule, message, where)]))
        raise
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        message = f"the weights found no room during the load: {first_line(error)}"
        log.require(outcome_of("SD509", [finding("SD509", message)]))
        raise
    log.report.not_done.remove(NOT_LOADED)
    return Loaded(opened, Models(target, drafter), runtime_bytes)


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
    decided = gate_b(placed.facts, placed.need, placed.options, opened.shape, figures)
    log.report.memory = decided.memory
    plan = log.obtain(decided.plan, decided.outcome)
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


def reconcile(pooled: Pooled, log: Log) -> Pooled:
    """Compare every billed byte with what was measured."""
    from server.memory.reconcile import reconcile as compare

    if log.report.memory is None:
        raise RuntimeError("there is no bill to reconcile")
    loaded, work = pooled.profiled.loaded, pooled.profiled.work
    log.report.memory, outcome = compare(
        loaded.opened.source, log.report.memory, loaded.models, pooled.pool, work
    )
    log.require(outcome)
    return pooled


def _within(options: Options, facts: DeviceFacts, log: Log) -> Options:
    """The options with the utilization that is in force on this device."""
    name = "gpu_memory_utilization"
    utilization, source = resolve_utilization(options, facts)
    log.report.settings[name] = SettingFacts(fraction_text(utilization), source)
    sources = {**options.sources, name: source}
    return replace(options, gpu_memory_utilization=utilization, sources=sources)


def _first_gate(placed: Placed, log: Log) -> None:
    decided = gate_a(placed.facts, placed.need, placed.options)
    log.report.memory = decided.memory
    log.require(decided.outcome)


def _fill(module: "nn.Module", plan: LoadPlan, opened: Opened, log: Log) -> None:
    import torch

    from server.model.build import final_tensors, materialise
    from server.weights.load import load_weights

    materialise(module, opened.source.torch_device, getattr(torch, opened.placed.dtype))
    label = f"load {plan.role}"
    with Meter(plan.checkpoint_bytes, label, log.console.stream or io.StringIO()) as progress:
        load_weights(plan, final_tensors(module), progress)
