"""The load: read ahead while torch is imported, then every weight in its final tensor.

`--weights` decides where a host keeps them: in memory of this process, or as views of the files.
"""

import io
from contextlib import suppress
from typing import TYPE_CHECKING

from server.config.geometry import DTYPE_BYTES
from server.config.rules import finding
from server.findings import Location, first_line, outcome_of
from server.log import Log
from server.memory.facts import DeviceKind
from server.memory.host import process_limits, read_host
from server.options import MAPPED
from server.placing import Placed, planned_bytes
from server.report import NOT_LOADED
from server.serve import Loaded, Opened
from server.weights.ahead import Ahead, ReadAhead
from server.weights.arena import Arena
from server.weights.pieces import LoadError
from server.weights.progress import Meter, gigabytes

if TYPE_CHECKING:
    from torch import nn


def read_ahead(placed: Placed) -> ReadAhead:
    """What may be read before torch is there: no more than the first gate has accepted.

    On a host the weights go to their final memory. Where they are mapped, converted or bound
    for a GPU the page cache is filled instead, as far as free memory reaches; also under a limit
    on this process (ulimit -v), by which memory is taken as soon as it is reserved: the next look
    at what is free would bill it twice.
    """
    on_host = placed.facts.kind is DeviceKind.CPU
    in_place = on_host and placed.options.weights != MAPPED and not process_limits()
    plans = [Ahead(plan) for plan in placed.plans]
    for ahead in plans:
        if in_place and ahead.plan.dtype == placed.dtype:
            # Without room the load will find none either, and say so.
            with suppress(MemoryError):
                ahead.arena = Arena(ahead.plan.entries, DTYPE_BYTES[placed.dtype])
    spare_bytes = read_host(sharers=placed.seat.sharers).available_bytes
    keep_cached = _keeps_cached(placed, spare_bytes)
    for ahead in plans:
        ahead.held.keep_cached = keep_cached
    if on_host:
        spare_bytes -= placed.need.weights.target_bytes + placed.need.weights.draft_bytes
    return ReadAhead(plans, max(0, spare_bytes))


def _keeps_cached(placed: Placed, available_bytes: int) -> bool:
    """Whether the files stay in the page cache beside all that is planned, for the next boot.

    Where the KV pool would push them out again, they are not to take memory in the first place.
    What ranks share is left to the kernel: one does not know what another has yet to read. So is
    the decision under a limit on this process, which does not count the page cache.
    """
    if placed.options.weights == MAPPED or placed.seat.sharers > 1 or process_limits():
        return True
    if placed.facts.kind is DeviceKind.CPU:
        available_bytes -= planned_bytes(placed)
    return sum(plan.checkpoint_bytes for plan in placed.plans) <= available_bytes


def load(opened: Opened, ahead: ReadAhead, log: Log) -> Loaded:
    """Put target, then draft, straight into their final tensors."""
    from server.memory.oom import out_of_memory
    from server.memory.profile import Models
    from server.model.build import build_drafter, build_target

    admission = opened.placed.admission
    drafter = None
    target = build_target(admission.target, opened.group)
    if admission.draft is not None:
        drafter = build_drafter(admission.draft, admission.target.hidden_size, opened.group)
    try:
        ahead.stop()
        # Only now has torch imported what it needs to build: that is runtime, not weights.
        opened.source.settle()
        runtime_bytes = max(0, opened.source.used_by_us_bytes() - ahead.filled_bytes)
        if ahead.read_bytes:
            log.console.line(f"read ahead: {gigabytes(ahead.read_bytes)} by the end of the import")
        if opened.placed.options.weights == MAPPED:
            _count_mapped(opened)
        for module, plan in zip((target, drafter), opened.placed.plans, strict=False):
            if module is not None:
                _fill(module, ahead.plans[plan.role], opened, log)
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


def _fill(module: "nn.Module", ahead: Ahead, opened: Opened, log: Log) -> None:
    import torch

    from server.model.build import final_tensors, install, materialise
    from server.weights.load import load_weights, tensors_in
    from server.weights.mapped import map_tensors

    plan, placed = ahead.plan, opened.placed
    dtype: torch.dtype = getattr(torch, placed.dtype)
    if placed.options.weights == MAPPED:
        install(module, map_tensors(plan))
        ahead.held.mapped = True
    elif opened.source.torch_device.type == "cpu":
        arena = ahead.arena or Arena(plan.entries, dtype.itemsize)
        install(module, tensors_in(arena, plan, dtype))
    else:
        materialise(module, opened.source.torch_device, dtype)
    label = f"load {plan.role}"
    progress = Meter(plan.checkpoint_bytes, label, log.console.stream or io.StringIO())
    log.loads[plan.role] = progress  # known before it is told
    with progress:
        sharers = placed.seat.sharers
        load_weights(plan, final_tensors(module), progress, ahead.held, sharers)


def _count_mapped(opened: Opened) -> None:
    from server.memory.host_source import HostSource

    if isinstance(opened.source, HostSource):
        opened.source.count_files()
