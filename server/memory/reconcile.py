"""After the allocation: what each line was billed, what it is by measurement, and the rest.

A formula is never checked against itself: weights were billed from file headers and are measured
as resident storages, the pool was billed by the planner and is measured as what torch's allocator
handed out, with the kernel's view beside it, the activation is measured a second time over the
real pool.
"""

from collections.abc import Iterator

from torch import nn

from server.config.rules import finding
from server.findings import Finding, Location, Outcome, outcome_of
from server.memory import bill
from server.memory.allocate import AllocatedPool
from server.memory.profile import Models, StepOutOfMemory, Workload, measure_phases
from server.memory.source import MemorySource, Taken
from server.memory.units import apart, bytes_text
from server.report import LedgerLine, MemoryFacts

# Allocators round up: CUDA's by segments, the C library's by arenas. Below this a difference on a
# pool or a peak says nothing about the bill.
ROUNDING_BYTES = 16 * 2**20


def reconcile(
    source: MemorySource,
    planned: MemoryFacts,
    models: Models,
    pool: AllocatedPool,
    work: Workload,
) -> tuple[MemoryFacts, Outcome]:
    """The planned facts with measured bytes, and SD507, SD508 where they differ.

    SD504 when the step no longer runs beside the real pool.
    """
    try:
        phases = measure_phases(source, models, work, pool.pool)
    except StepOutOfMemory as error:
        return planned, outcome_of("SD504", (error.finding,))
    source.settle()
    measured = {
        bill.TARGET_WEIGHTS: storage_bytes(models.target),
        bill.ACTIVATION: max(phase.peak_bytes for phase in phases),
        bill.KV_POOL: pool.taken.allocated_bytes,
    }
    if models.drafter is not None:
        measured[bill.DRAFT_WEIGHTS] = storage_bytes(models.drafter)
    used_bytes = source.used_by_us_bytes()
    kept = sum(size for name, size in measured.items() if name != bill.ACTIVATION)
    measured[bill.RUNTIME] = max(0, used_bytes - kept)
    ledger = tuple(li._replace(measured_bytes=measured.get(li.line)) for li in planned.ledger)
    unexplained = used_bytes - kept - _billed(ledger, bill.RUNTIME)
    facts = planned._replace(ledger=ledger, unexplained_bytes=unexplained)
    tolerance = max(planned.limit_bytes // 100, source.noise_bytes)
    outcome = outcome_of("SD507", _unexplained(facts, used_bytes, tolerance))
    differing = (
        *_differing(ledger, source.noise_bytes),
        *_not_held(pool.taken, source.noise_bytes),
    )
    return facts, outcome + outcome_of("SD508", differing)


def storage_bytes(module: nn.Module) -> int:
    """Bytes of the distinct storages behind a module's weights and buffers."""
    tensors = (*module.parameters(), *module.buffers())
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def _billed(ledger: tuple[LedgerLine, ...], name: str) -> int:
    return next(line.billed_bytes for line in ledger if line.line == name)


def _unexplained(facts: MemoryFacts, used_bytes: int, tolerance_bytes: int) -> Iterator[Finding]:
    """SD507: what the process uses differs from the sum of its lines by more than 1 %."""
    unexplained_bytes = facts.unexplained_bytes or 0
    if abs(unexplained_bytes) <= tolerance_bytes:
        return
    used, explained = apart(used_bytes, used_bytes - unexplained_bytes)
    yield finding(
        "SD507",
        f"this server uses {used}, the ledger explains {explained}",
        Location("used", value=used_bytes, source="in bytes"),
        Location("explained", value=used_bytes - unexplained_bytes, source="in bytes"),
        Location("limit", value=facts.limit_bytes, source="in bytes"),
    )


def _not_held(taken: Taken, noise_bytes: int) -> Iterator[Finding]:
    """SD508: the kernel's view of the pool is not the allocator's, by more than its noise."""
    if taken.held_bytes is None:
        return
    held_bytes = max(0, taken.held_bytes)
    tolerance = max(noise_bytes, taken.allocated_bytes // 100)
    if abs(held_bytes - taken.allocated_bytes) <= tolerance:
        return
    allocated, held = apart(taken.allocated_bytes, held_bytes)
    yield finding(
        "SD508",
        f"{bill.KV_POOL}: torch allocated {allocated}, resident memory grew by {held}",
        Location("allocated", value=taken.allocated_bytes, source="by torch, in bytes"),
        Location("resident", value=held_bytes, source="growth of resident memory, in bytes"),
    )


def _differing(ledger: tuple[LedgerLine, ...], noise_bytes: int) -> Iterator[Finding]:
    """SD508: a line differs from its bill by more than 1 %.

    Weights are exact, hence no rounding. The activation is a peak, which may be seen as resident
    memory: only more than billed counts. The runtime's difference is what SD507 judges.
    """
    for line in ledger:
        apart_bytes = line.difference_bytes or 0
        rounding = 0 if "weights" in line.line else ROUNDING_BYTES
        if line.line == bill.ACTIVATION:
            rounding += noise_bytes
        else:
            apart_bytes = abs(apart_bytes)
        tolerance = max(rounding, line.billed_bytes // 100)
        if line.line == bill.RUNTIME or apart_bytes <= tolerance:
            continue
        billed, measured = apart(line.billed_bytes, line.measured_bytes or 0)
        yield finding(
            "SD508",
            f"{line.line}: billed {billed}, measured {measured} ({bytes_text(apart_bytes)} apart)",
            Location("billed", value=line.billed_bytes, source=f"{line.line}, in bytes"),
            Location("measured", value=line.measured_bytes, source=f"{line.line}, in bytes"),
        )
