"""What the ranks of one model tell each other of their devices, so that one pool fits on all.

The pool has the same number of blocks on every rank, and the tightest one decides
(https://github.com/ROCm/ATOM/pull/1495 shows what the figures of one rank for all do).
"""

import json
import os
from dataclasses import asdict
from fractions import Fraction

import torch

from server.config.rules import finding
from server.ending import Council
from server.findings import Location, Severity, outcome_of
from server.log import Log
from server.memory.bill import Charges, Rank
from server.memory.facts import DeviceFacts, DeviceKind
from server.memory.host_source import HostSource
from server.memory.nvml import Tenant
from server.memory.planner import Plan
from server.memory.source import MemorySource
from server.model.parallel import Group
from server.report import LedgerLine, MemoryFacts, RankFacts
from server.weights.parts import Share

_DEVICE, _MEMORY = "device", "memory"


def open_group(council: Council, source: MemorySource, log: Log) -> Group:
    """The group of all ranks, once each has opened its device; all must be of one kind."""
    seat, facts = council.seat, source.facts
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(min(torch.get_num_threads(), max(1, cores // seat.sharers)))
    put_device(council, facts)
    council.meet()
    first = _device(council, 0)
    if first.kind != facts.kind:
        message = f"rank {seat.rank} has {facts.label}, rank 0 has {first.label}"
        where = Location("device", value=facts.label, source=facts.reason)
        log.require(outcome_of("SD601", [finding("SD601", message, where)]))
    group = Group.open(council.store, Share(seat.rank, seat.world), source.torch_device)
    if isinstance(source, HostSource):
        source.meet = group.wait
    return group


def put_device(council: Council, facts: DeviceFacts) -> None:
    """Leave this rank's device for the others."""
    council.put(_DEVICE, json.dumps(asdict(facts)))


def devices_of_all(council: Council) -> tuple[DeviceFacts, ...]:
    """Every rank's device in order of rank, as it was when the rank opened it."""
    return tuple(_device(council, rank) for rank in range(council.seat.world))


def _device(council: Council, rank: int) -> DeviceFacts:
    told = json.loads(council.take(_DEVICE, rank))
    changes = {
        "kind": DeviceKind(told["kind"]),
        "tenants": tuple(Tenant(**tenant) for tenant in told["tenants"]),
        "notes": tuple(told["notes"]),
    }
    return DeviceFacts(**{**told, **changes})


def figures_of_all(
    group: Group, own: Rank, utilization: Fraction
) -> tuple[tuple[Rank, ...], Fraction]:
    """Every rank's figures in order of rank, and the smallest of their utilizations.

    A host's default is what is free, so that ranks which looked one after the other may differ.
    """
    charges = own.charges
    rows = group.rows(
        (
            own.total_bytes,
            own.ceiling_bytes or 0,
            charges.runtime_bytes,
            charges.target_weights_bytes,
            charges.draft_weights_bytes,
            charges.activation_bytes,
            *utilization.as_integer_ratio(),
        )
    )
    ranks = tuple(_rank(row, charges.margin_bytes) for row in rows)
    return ranks, min(Fraction(row[-2], row[-1]) for row in rows)


def _rank(row: list[int], margin_bytes: int) -> Rank:
    total_bytes, ceiling_bytes, runtime_bytes, target_bytes, draft_bytes, peak_bytes = row[:6]
    charges = Charges(
        runtime_bytes=runtime_bytes,
        target_weights_bytes=target_bytes,
        draft_weights_bytes=draft_bytes,
        activation_bytes=peak_bytes,
        margin_bytes=margin_bytes,
    )
    return Rank(total_bytes, charges, ceiling_bytes)


def own_memory(memory: MemoryFacts, plan: Plan, rank: int) -> MemoryFacts:
    """The planned facts with this rank's own ledger, and which rank limits the pool."""
    limiting = plan.limiting_rank
    fits = plan.granted_bytes // plan.request.layout.block_bytes
    note = f"rank {limiting} has the least room for the pool: {fits} KV blocks"
    ledger = plan.ledger_of(rank)
    return memory._replace(
        ledger=ledger,
        limit_bytes=sum(line.billed_bytes for line in ledger),
        notes=(*memory.notes, note),
    )


def gather_memory(council: Council, log: Log) -> None:
    """Rank 0 takes over every rank's ledger, and what the others found since the load began.

    Every rank waits here for the others; from now on none of them can be refused.
    """
    memory, seat = log.report.memory, council.seat
    if memory is None:
        raise RuntimeError("there is no ledger to tell")
    found = [(f.rule, f.message) for f in log.report.findings if f.severity is Severity.WARNING]
    ledger = [(line.line, line.billed_bytes, line.measured_bytes) for line in memory.ledger]
    council.put(_MEMORY, json.dumps([memory.device, memory.limit_bytes, ledger, found]))
    told = {(f.rule, f.message) for f in log.report.findings}
    ranks = []
    for rank in range(seat.world):
        device, limit_bytes, lines, warnings = json.loads(council.take(_MEMORY, rank))
        ranks.append(RankFacts(rank, device, limit_bytes, tuple(LedgerLine(*li) for li in lines)))
        for rule, message in warnings:
            if seat.speaks and (rule, message) not in told:
                where = f"rank {rank}: {message}"
                log.tell(outcome_of(rule, [finding(rule, where, severity=Severity.WARNING)]))
    log.report.memory = memory._replace(ranks=tuple(ranks))
