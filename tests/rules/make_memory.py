"""Inputs of the memory rules: devices whose figures are scripted, with real gates and real steps.

`flags` are read by the real command line parser. Sizes are bytes.
"""

import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import torch

from server.cli import parse
from server.findings import Outcome
from server.memory.allocate import allocate_pool
from server.memory.bill import Rank
from server.memory.facts import host_facts
from server.memory.gates import Measured, gate_a, gate_b
from server.memory.host_source import HostSource
from server.memory.largest import row_bytes
from server.memory.need import WeightBytes, need_of
from server.memory.planner import Plan, PlanRequest, plan
from server.memory.profile import Workload, profile
from server.memory.reconcile import reconcile, storage_bytes
from server.memory.shape import RunShape, resolve_shape
from server.model.steps import StepShape
from server.options import Options
from server.weights.parts import WHOLE
from tests.memory.fake_machine import MIB, FakeMachine
from tests.memory.make import ALONE, GIB, FixedSource, make_facts, make_need
from tests.memory.test_profile import allocating, make_models
from tests.model.tiny import make_draft, make_target_config

_MODEL = "Qwen3-8B"


class Fit(NamedTuple):
    """Qwen3-8B before the load, on a device of which only `free` of `total` bytes are free."""

    flags: str
    total: int
    free: int | None = None

    @property
    def told(self) -> str:
        free = self.total if self.free is None else self.free
        return _told(
            _command(self.flags),
            f"the device has {self.total} bytes, {free} of them free",
            f"the weights of {_MODEL} take {make_need().weights.target_bytes} bytes",
        )

    def judge(self, _folder: Path) -> Outcome:
        free = self.total if self.free is None else self.free
        facts = make_facts(total_bytes=self.total, free_bytes=free)
        return gate_a(facts, make_need(), _options(self.flags)).outcome


class Sized(NamedTuple):
    """Qwen3-8B after the profile, on a free device of 80 GiB."""

    flags: str

    @property
    def told(self) -> str:
        return _told(
            _command(self.flags),
            "the device has 80 GiB; 1 GiB is taken by the runtime, 2 GiB by the largest step",
        )

    def judge(self, _folder: Path) -> Outcome:
        facts, options = make_facts(), _options(self.flags)
        free = 79 * GIB - make_need().weights.target_bytes
        shape = resolve_shape(options, facts, None)
        return gate_b(facts, make_need(), options, shape, Measured(GIB, 2 * GIB, free)).outcome


def row_of_step() -> int:
    """Bytes that a prefill row of the small pair takes at least."""
    return row_bytes(make_target_config(), make_draft(), 4, WHOLE).prefill


class Step(NamedTuple):
    """A small real pair whose largest step is run, while others take memory of the device."""

    flags: str
    free: int
    taken: int = 0

    @property
    def told(self) -> str:
        others = f"others take {self.taken} of them while the step is measured"
        return _told(
            f"a small pair with `{self.flags}`",
            f"a row of its prefill step takes at least {row_of_step()} bytes: 8 for a token, and "
            "floats of 4 bytes for the hidden state, each captured layer and the inside of an MLP",
            f"the device has {self.free} bytes free" + (f", {others}" if self.taken else ""),
        )

    def judge(self, _folder: Path) -> Outcome:
        options = _options(self.flags)
        models, layout = make_models()
        shape = StepShape(options.max_num_batched_tokens or 8, 2, 5, 64)
        # The first look, and the two of the first attempt before its steps.
        free = [*[self.free] * 3, self.free - self.taken]
        source = FixedSource(make_facts(), free=free, used=[0])
        return profile(source, models, Workload(layout, shape), options.memory_margin_bytes)[1]


class Ledger(NamedTuple):
    """A booted small pair. Beyond the bill, the pool took `pool`, and something `other` bytes."""

    pool: int = 0
    other: int = 0

    @property
    def told(self) -> str:
        return _told(
            "the device has 1000 MiB, all of them the limit, and the KV pool is below 1 MiB",
            f"the allocator took {self.pool} bytes more for the KV pool than were billed",
            f"after the boot the process holds {self.other} bytes that no line explains",
        )

    def judge(self, _folder: Path) -> Outcome:
        models, layout = make_models()
        assert models.drafter is not None
        weights = WeightBytes(storage_bytes(models.target), storage_bytes(models.drafter))
        need = need_of(make_target_config(), make_draft(), weights, "float32", 4)
        runtime, step, total = 100 * MIB, 2 * MIB, 1000 * MIB
        facts = make_facts(total_bytes=total, free_bytes=total)
        options = _options("--gpu-memory-utilization 1 --max-model-len 64")
        measured = Measured(runtime, step, total - runtime)
        decided = gate_b(facts, need, options, RunShape(32, 2, 4, {}), measured)
        assert decided.plan is not None
        assert decided.memory is not None
        assert decided.plan.pool_bytes < MIB
        held = runtime + weights.target_bytes + weights.draft_bytes
        pooled = held + decided.plan.pool_bytes + self.pool
        used = [held, pooled, pooled + self.other]
        source = FixedSource(facts, free=[total], used=used, growth=(step,))
        pool, outcome = allocate_pool(source, decided.plan, torch.float32)
        assert pool is not None, outcome
        work = Workload(layout, StepShape(32, 2, 5, 64), allocating(2, 1))
        return reconcile(source, decided.memory, models, pool, work)[1]


class Pool(NamedTuple):
    """A pool of `blocks` KV blocks of Qwen3-8B that a host with 90 MiB available is to give."""

    blocks: int

    @property
    def size(self) -> int:
        return self.blocks * ALONE.block_bytes

    @property
    def told(self) -> str:
        return _told(
            f"the plan is a KV pool of {self.blocks} blocks, {self.size} bytes",
            f"the host has 90 MiB, {90 * MIB} bytes, available when the pool is allocated",
        )

    def judge(self, folder: Path) -> Outcome:
        host = FakeMachine(folder)
        host.memory(1000, 90)
        # The guard adds to what this very process holds.
        (folder / "proc/self/status").unlink()
        (folder / "proc/self/status").symlink_to("/proc/self/status")
        source = HostSource(host_facts(host.machine(), "asked for"), host.machine())
        request = PlanRequest(ALONE, Fraction(1), (Rank(2**40),), 1, kv_cache_bytes=self.size)
        found = plan(request)
        assert isinstance(found, Plan)
        # Torch's threads take their stacks with their first work, which is not the pool's.
        torch.ones(MIB).zero_()
        return _versionless(allocate_pool(source, found, torch.bfloat16)[1])


def _versionless(outcome: Outcome) -> Outcome:
    """Without the line of torch's source that its allocator names, which differs by release."""
    found = [
        told._replace(
            locations=tuple(
                place._replace(value=re.sub(r"\.cpp:\d+", ".cpp", str(place.value)))
                if place.role == "allocator"
                else place
                for place in told.locations
            )
        )
        for told in outcome.findings
    ]
    return Outcome(tuple(found), outcome.checks)


def _options(flags: str) -> Options:
    parsed = parse(["--target", _MODEL, *flags.split()], {})
    assert parsed.options is not None, parsed.outcome
    return parsed.options


def _command(flags: str) -> str:
    return f"`python -m server --target {_MODEL} {flags}`"


def _told(*facts: str) -> str:
    return "\n".join(f"- {fact}" for fact in facts)
