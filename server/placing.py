"""From an admission to a device that could hold it, and what each rank needs of that.

`place` touches no device and needs no torch; `place_again` judges once the device is open.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from server.admission import Admission
from server.config.geometry import DTYPE_BYTES
from server.config.records import BlockDraft, TargetConfig
from server.config.rules import finding
from server.conversions import computed_dtype
from server.findings import Finding, Location, Outcome, outcome_of
from server.log import Log
from server.memory.bill import UNUSED, limit_bytes
from server.memory.facts import DeviceFacts, DeviceKind, Machine, find_device
from server.memory.gates import Expected, gate_a
from server.memory.kv_dtype import judge_converted, kv_settings, stored_layout
from server.memory.largest import row_bytes, too_large, too_many
from server.memory.need import Need, WeightBytes, need_of
from server.memory.nvml import read_nvml
from server.memory.shape import resolve_shape, resolve_utilization
from server.memory.source import MemorySource
from server.options import MAPPED, Options, fraction_text
from server.report import SettingFacts
from server.seats import ALONE, Seat
from server.weights.load_plan import LoadPlan, resident_bytes
from server.weights.parts import Share, part_config, part_plan


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


def place(admission: Admission, options: Options, log: Log, seat: Seat = ALONE) -> Placed:
    """Choose the device without touching it, and refuse what can never fit there."""
    machine = Machine(sharers=seat.sharers)
    facts = log.obtain(*find_device(seat.device(options.device), os.environ, machine))
    if seat.launches and facts.kind is DeviceKind.CUDA:
        log.require(device_for_each(seat, machine))
    placed = on_device(facts, admission, options, log, seat)
    _first_gate(placed, log)
    return placed


def on_device(
    facts: DeviceFacts, admission: Admission, options: Options, log: Log, seat: Seat = ALONE
) -> Placed:
    """What the rank at `seat` needs of this device, and the settings that are in force there."""
    dtype = computed_dtype(admission, options)
    target, draft, plans = _parts(admission, Share(seat.rank, seat.world))
    weights = WeightBytes(*(resident_bytes(plan, dtype) for plan in plans))
    need = need_of(target, draft, weights, dtype, options.kv_block_size)
    need = replace(need, layout=stored_layout(need.layout, options, dtype))
    log.report.settings |= kv_settings(need.layout, options)
    source = "the target's weights" if options.dtype == "auto" else options.source("dtype")
    log.report.settings["dtype"] = SettingFacts(dtype, source)
    placed = Placed(admission, _within(options, facts, log), facts, need, dtype, plans, seat)
    log.require(_mappable(placed))
    return placed


def seated(placed: Placed, seat: Seat, log: Log) -> Placed:
    """What the launcher placed, for the rank at `seat`: rank 0 has the launcher's device."""
    if seat.speaks:
        return replace(placed, seat=seat)
    return place(placed.admission, placed.options, log, seat)


def place_again(placed: Placed, source: MemorySource, log: Log) -> Placed:
    """The same on the opened device, judged once more by its own totals."""
    options = _within(placed.options, source.facts, log)
    placed = replace(placed, options=options, facts=source.facts)
    log.require(_mappable(placed))
    log.require(_conflicts(judge_converted(placed.need.layout, source)))
    _first_gate(placed, log)
    return placed


def largest_step(placed: Placed) -> Outcome:
    """SD504 and SD705: a step that has no room on this device, or too many requests for any.

    Nothing is told where the device's size is not known yet. What is free just now does not count.
    """
    options, seat, pair = placed.options, placed.seat, placed.admission
    if placed.facts.total_bytes is None:
        return Outcome()
    shape = resolve_shape(options, placed.facts, pair.draft)
    limit = limit_bytes(options.gpu_memory_utilization, placed.facts.total_bytes)
    weights = placed.need.weights.target_bytes + placed.need.weights.draft_bytes
    room = max(0, limit - weights - options.memory_margin_bytes)
    share = Share(seat.rank, seat.world)
    rows = row_bytes(pair.target, pair.draft, DTYPE_BYTES[placed.dtype], share)
    longest = options.max_model_len or placed.need.limit_tokens
    if large := too_large(shape, rows, room, longest):
        return outcome_of("SD504", large)
    return _conflicts(too_many(shape, longest))


def planned_bytes(placed: Placed) -> int:
    """What this rank will use of its device in the end, as far as is known before the load."""
    shape = resolve_shape(placed.options, placed.facts, placed.admission.draft)
    expected = Expected(max_num_seqs=shape.max_num_seqs)
    memory = gate_a(placed.facts, placed.need, placed.options, expected).memory
    lines = memory.ledger if memory else ()
    return sum(line.billed_bytes for line in lines if line.line != UNUSED)


def device_for_each(seat: Seat, machine: Machine) -> Outcome:
    """SD601: a rank has no device. The launcher tells it, before any rank is started."""
    machine = replace(machine, reading=read_nvml(machine.nvml, machine.nvml_limit_s))
    for rank in range(1, seat.world):
        _, outcome = find_device(f"{DeviceKind.CUDA}:{rank}", os.environ, machine)
        if outcome.refused:
            fix = f"make {seat.world} devices visible, or use fewer ranks, or --device cpu"
            told = (found._replace(fix=fix) for found in outcome.findings)
            return outcome_of("SD601", told)
    return Outcome()


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


def _within(options: Options, facts: DeviceFacts, log: Log) -> Options:
    """The options with the utilization that is in force on this device."""
    name = "gpu_memory_utilization"
    utilization, source = resolve_utilization(options, facts)
    log.report.settings[name] = SettingFacts(fraction_text(utilization), source)
    sources = {**options.sources, name: source}
    return replace(options, gpu_memory_utilization=utilization, sources=sources)


def _mappable(placed: Placed) -> Outcome:
    """SD705: --weights mapped, and a device that cannot use a file in place."""
    if placed.options.weights != MAPPED or placed.facts.kind is not DeviceKind.CUDA:
        return Outcome()
    where = Location("setting", flag="--weights", value=MAPPED)
    message = f"--weights is mapped, and the device is {placed.facts.label}"
    return _conflicts([finding("SD705", message, where)])


def _conflicts(told: Iterable[Finding]) -> Outcome:
    """The findings of SD705; without any, the command line has passed it already."""
    found = tuple(told)
    return outcome_of("SD705", found) if found else Outcome()


def _first_gate(placed: Placed, log: Log) -> None:
    decided = gate_a(placed.facts, placed.need, placed.options)
    log.report.memory = decided.memory
    log.require(decided.outcome)
    log.require(largest_step(placed))
