"""One pool for all ranks: the tightest decides, and each keeps the ledger of its own."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

from server.log import Refused
from server.memory.bill import RUNTIME, Charges
from server.memory.bill import Rank as Bill
from server.memory.facts import DeviceKind
from server.memory.gates import Measured, gate_b, measured_rank
from server.memory.nvml import Tenant
from server.memory.planner import Plan
from server.model.parallel import Group
from server.peers import devices_of_all, figures_of_all, open_group, own_memory, put_device
from server.weights.parts import Share
from tests.memory.make import GIB, FixedSource, make_facts, make_need, make_options
from tests.memory.test_gates import shape_of
from tests.test_ending import SEATS, Rank, Store


@dataclass(frozen=True, slots=True)
class Four(Group):
    """Four ranks that are like the first, but for what `tight` of them has less of free memory."""

    tight: int = 2

    def rows(self, values: object) -> list[list[int]]:
        rows = [list(values) for _ in range(4)]  # type: ignore[call-overload]
        rows[self.tight][1] -= 4 * GIB
        rows[self.tight][2] += GIB
        rows[0][-2:] = [8, 10]
        return rows


def test_the_tightest_rank_decides_and_is_named() -> None:
    facts, need, options = make_facts(), make_need(), make_options()
    measured = Measured(GIB, 2 * GIB, 60 * GIB)
    own = measured_rank(facts, need, options, measured)
    ranks, lowest = figures_of_all(Four(Share(1, 4)), own, options.gpu_memory_utilization)
    assert lowest == Fraction(4, 5)
    assert ranks[1] == own
    decided = gate_b(
        facts, need, make_options(gpu_memory_utilization=lowest), shape_of(64),
        Measured(GIB, 2 * GIB, 60 * GIB, ranks),
    )  # fmt: skip
    assert decided.plan is not None
    assert decided.memory is not None
    assert decided.plan.limiting_rank == 2
    alone = gate_b(facts, need, make_options(gpu_memory_utilization=lowest), shape_of(64), measured)
    assert alone.plan is not None
    assert decided.plan.num_blocks < alone.plan.num_blocks
    mine = own_memory(decided.memory, decided.plan, 1)
    runtime = {line.line: line.billed_bytes for line in mine.ledger}[RUNTIME]
    assert runtime == GIB
    assert {line.line: line.billed_bytes for line in decided.memory.ledger}[RUNTIME] == 2 * GIB
    assert sum(line.billed_bytes for line in mine.ledger) == mine.limit_bytes == 64 * GIB
    assert mine.notes[-1].startswith("rank 2 has the least room for the pool: ")


def test_a_rank_with_another_kind_of_device_is_refused() -> None:
    store = Store()
    zero, one = (Rank(seat, store) for seat in SEATS)
    put_device(zero.council, make_facts())
    zero.council.put("here", "yes")
    source = FixedSource(make_facts(kind=DeviceKind.CPU, name="host memory"), [1], [1])
    with pytest.raises(Refused):
        open_group(one.council, source, one.log)
    assert "rank 1 has cpu host memory, rank 0 has cuda:0 GPU" in one.said


def test_every_rank_knows_the_devices_of_all() -> None:
    store = Store()
    zero, one = (Rank(seat, store) for seat in SEATS)
    tenants = (Tenant(4711, GIB), Tenant(None, None))
    facts = (make_facts(), make_facts(index=1, name="SMALL", tenants=tenants, notes=("odd",)))
    put_device(zero.council, facts[0])
    put_device(one.council, facts[1])
    assert devices_of_all(zero.council) == devices_of_all(one.council) == facts
    assert devices_of_all(zero.council)[1].label == "cuda:1 SMALL"


def test_figures_come_back_as_they_were() -> None:
    rank = Bill(100, Charges(1, 2, 3, 4, margin_bytes=5), 90)
    assert figures_of_all(Group(), rank, Fraction(1, 3)) == ((rank,), Fraction(1, 3))


def test_a_plan_of_one_rank_is_unchanged() -> None:
    decided = gate_b(
        make_facts(), make_need(), make_options(), shape_of(64), Measured(GIB, 0, 60 * GIB)
    )
    assert isinstance(decided.plan, Plan)
    assert decided.plan.ledger_of(0) == decided.plan.ledger
