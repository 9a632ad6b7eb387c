"""Another process takes or frees host memory in the middle of the profile.

The neighbour is a real process, and what is free is what the kernel says. It moves when the first
step of the first attempt runs, and the step waits for its word: no sleeps. Other processes of the
machine move as well, so one try in several must be as expected, where each would be alone.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from server.findings import Outcome
from server.memory.allocate import allocate_pool
from server.memory.cgroup import read_text
from server.memory.gates import Measured, gate_b
from server.memory.host import PROC, process_limits, read_host
from server.memory.host_source import RESIDENT_NOISE_BYTES, HostSource
from server.memory.profile import Models, Profile, Workload, profile
from server.memory.reconcile import reconcile
from server.memory.shape import RunShape, resolve_utilization
from tests.memory.fake_machine import MIB
from tests.memory.make import errors, make_options, rules
from tests.memory.test_profile import SHAPE, make_host, make_models
from tests.memory.test_reconcile import make_need

MARGIN = 150 * MIB
MOVED = 512 * MIB
TRIES = 8

_NEIGHBOUR = """
import mmap, sys
held = None
for line in sys.stdin:
    if held is not None:
        held.close()
        held = None
    if size := int(line):
        held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, size, mmap.PAGESIZE):
            held[at] = 1
    print(size, flush=True)
"""


class Neighbour:
    """A process that holds as many bytes as it was told last."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _NEIGHBOUR],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hold(self, size_bytes: int) -> None:
        """Returns when the pages are there, or gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(size_bytes, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == f"{size_bytes}\n", "the neighbour is gone"


@contextmanager
def neighbour() -> Iterator[Neighbour]:
    if read_host().available_bytes < 3 * MOVED:
        pytest.skip(f"the neighbour needs {3 * MOVED >> 20} MiB of free memory")
    if not read_text(PROC / "zoneinfo"):
        pytest.skip("without /proc/zoneinfo the free pages that a CPU keeps are not seen")
    if process_limits():
        pytest.skip("under a limit on this process, what is free is not what others leave")
    beside = Neighbour()
    try:
        yield beside
    finally:
        beside.process.kill()
        beside.process.communicate()


class Seen(NamedTuple):
    """A profile in whose first step the neighbour moved, and by how much more is free since."""

    source: HostSource
    models: Models
    runs: list[object]
    profile: Profile
    outcome: Outcome
    freed_bytes: int

    def told(self, verb: str) -> bool:
        """True when the move was told, and the figures are those after it."""
        more = self.freed_bytes if verb == "released" else -self.freed_bytes
        return [f.message.split()[1] for f in self.outcome.findings] == [verb] and more > MOVED // 2


def seen(beside: Neighbour, before: int, after: int) -> Seen:
    """Profile a real pair on the real host while the neighbour goes from `before` to `after`."""
    beside.hold(before)
    source, (models, layout) = make_host(), make_models()
    free_bytes, runs = source.free_bytes(), []

    def run(*_: object) -> None:
        runs.append(None)
        if len(runs) == 1:
            beside.hold(after)
        torch.ones(MIB)

    found, outcome = profile(source, models, Workload(layout, SHAPE, run), MARGIN)
    assert errors(outcome) == []
    assert found is not None
    return Seen(source, models, runs, found, outcome, found.free_bytes - free_bytes)


def told(verb: str, before: int, after: int) -> Seen:
    """The first try in which nobody else undid what the neighbour did."""
    with neighbour() as beside:
        tries = (seen(beside, before, after) for _ in range(TRIES))
        found = next((one for one in tries if one.told(verb)), None)
        assert found is not None, f"never told that others {verb} {MOVED} bytes"
        assert len(found.runs) == 2 * 4  # two attempts, of two phases that each run twice
        only_the_steps_are_billed(found.profile)
        boots(found)
    return found


def only_the_steps_are_billed(found: Profile) -> None:
    assert found.activation_bytes == 4 * MIB
    assert found.runtime_growth_bytes < RESIDENT_NOISE_BYTES


def boots(one: Seen) -> None:
    """The rest of the boot: plan, pool, ledger."""
    need, found = make_need(one.models), one.profile
    runtime = one.source.used_by_us_bytes() - need.weights.target_bytes - need.weights.draft_bytes
    figures = Measured(runtime, found.activation_bytes, found.free_bytes)
    options = make_options(max_model_len=64, kv_cache_memory_bytes=32 * MIB)
    facts = one.source.facts
    options = replace(options, gpu_memory_utilization=resolve_utilization(options, facts)[0])
    decided = gate_b(facts, need, options, RunShape(32, 2, 4, {}), figures)
    assert decided.plan is not None, decided.outcome
    assert decided.memory is not None
    pool, outcome = allocate_pool(one.source, decided.plan, torch.float32)
    assert pool is not None, outcome
    work = Workload(need.layout, SHAPE)
    facts_, outcome = reconcile(one.source, decided.memory, one.models, pool, work)
    assert rules(outcome) == []
    assert sum(line.billed_bytes for line in facts_.ledger) == facts_.limit_bytes


def test_a_neighbour_that_takes_memory_is_told() -> None:
    told("took", before=0, after=MOVED)


def test_a_neighbour_that_frees_memory_is_survived() -> None:
    told("released", before=MOVED, after=0)
