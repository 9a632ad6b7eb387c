"""Taking the planned pool from the device, and how much that took."""

from dataclasses import dataclass

import torch

from server.config.rules import finding
from server.findings import Location, Outcome, first_line, outcome_of
from server.memory.oom import out_of_memory
from server.memory.planner import Plan
from server.memory.profile import zero
from server.memory.source import MemorySource, Taken
from server.memory.units import bytes_text
from server.model.kv import KvPool, PoolShape


@dataclass(frozen=True, slots=True)
class AllocatedPool:
    """The pool, and what taking it took from the device."""

    pool: KvPool
    taken: Taken


def allocate_pool(
    source: MemorySource, plan: Plan, dtype: torch.dtype
) -> tuple[AllocatedPool | None, Outcome]:
    """The pool of `plan`, filled with zeros; None comes with SD509."""
    layout = plan.request.layout
    shape = PoolShape(layout.target, layout.draft, plan.num_blocks, layout.block_tokens)
    source.settle()
    try:
        with source.guard(), source.taken() as taken:
            pool = KvPool.allocate(shape, dtype, source.torch_device)
            # Host memory is taken only when it is written.
            zero(pool)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return None, _failed(plan, source, error)
    return AllocatedPool(pool, taken), outcome_of("SD509", ())


def _failed(plan: Plan, source: MemorySource, error: BaseException) -> Outcome:
    message = (
        f"the KV pool of {bytes_text(plan.pool_bytes)} was refused, "
        f"{bytes_text(max(0, source.free_bytes()))} are free"
    )
    where = (
        Location("pool", value=plan.pool_bytes, source=f"{plan.num_blocks} KV blocks, in bytes"),
        Location("allocator", value=first_line(error)),
    )
    return outcome_of("SD509", (finding("SD509", message, *where),))
