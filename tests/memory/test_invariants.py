"""What holds beyond the planner: what is printed, where the integers come from, what NVML says."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server.cli import parse
from server.config.geometry import RESERVED_BLOCKS
from server.findings import Finding
from server.memory.device import open_device
from server.memory.facts import DeviceFacts, DeviceKind, find_device
from server.memory.gates import GateResult, Measured, gate_a, gate_b
from server.memory.kv_layout import kv_layout
from server.memory.need import Need, WeightBytes
from server.memory.nvml import Tenant
from server.memory.shape import RunShape
from server.memory.source import MemorySource
from server.model.kv import KvPool, KvPoolError, PoolShape
from server.model.speculate import Speculator
from server.options import Options, fraction_text
from server.render.ledger import render_memory
from server.render.style import Style
from tests.memory.fake_machine import MIB, FakeMachine, fake_gpu, fake_nvml
from tests.memory.make import (
    GIB,
    FixedSource,
    errors,
    make_facts,
    make_need,
    make_options,
    make_plan,
    rules,
)
from tests.memory.test_device import UUID, FakeCuda
from tests.model.tiny import (
    decode_whole,
    make_draft,
    make_drafter,
    make_target,
    make_target_config,
    random_tokens,
)

SHAPE = RunShape(256, 4, 0, {})
FLAG = re.compile(r"(--[a-z-]+) ([0-9.]+)(?![0-9.])")


@st.composite
def questions(draw: st.DrawFn) -> tuple[DeviceFacts, Need, Options]:
    """A device, a pair and settings of any sizes; most do not fit together."""
    total = draw(st.integers(GIB, 90 * GIB))
    facts = make_facts(
        total_bytes=total,
        free_bytes=draw(st.integers(0, total)),
        exact=draw(st.booleans()),
        tenants=(Tenant(4711, 5), Tenant(None, None)),
    )
    weights = WeightBytes(draw(st.integers(0, 60 * GIB)), draw(st.integers(0, 4 * GIB)))
    length = draw(st.none() | st.integers(1, 40_960))
    options = make_options(
        gpu_memory_utilization=Fraction(draw(st.integers(1, 100)), 100),
        max_model_len=length,
        auto_max_model_len=length is None and draw(st.booleans()),
        kv_cache_memory_bytes=draw(st.none() | st.integers(0, 20 * GIB)),
    )
    return facts, replace(make_need(), weights=weights), options


def with_flag(options: Options, flag: str, value: str) -> Options:
    """The options after the operator typed `flag` with `value`."""
    typed = parse(["--target", "t", flag, value], {}).options
    assert typed is not None
    name = flag.removeprefix("--").replace("-", "_")
    auto = options.auto_max_model_len and flag != "--max-model-len"
    return replace(options, **{name: getattr(typed, name)}, auto_max_model_len=auto)


@given(questions())
def test_i13_each_change_that_is_printed_is_accepted_when_it_is_typed(
    question: tuple[DeviceFacts, Need, Options],
) -> None:
    facts, need, options = question
    for refusal in gate_a(facts, need, options).outcome.findings:
        if refusal.fix.startswith("once other processes have released memory: --"):
            facts = replace(facts, free_bytes=facts.total_bytes)
        for flag, value in FLAG.findall(refusal.fix):
            changed = with_flag(options, flag, value)
            assert changed != options
            assert errors(gate_a(facts, need, changed).outcome) == []


@given(questions())
def test_i13_what_is_called_the_most_or_the_least_is_that(
    question: tuple[DeviceFacts, Need, Options],
) -> None:
    facts, need, options = question
    for refusal in gate_a(facts, need, options).outcome.findings:
        if refusal.fix.startswith("once other processes have released memory: --"):
            facts = replace(facts, free_bytes=facts.total_bytes)
        for flag, value, which in re.findall(FLAG.pattern + r" \(the (most|least)", refusal.fix):
            step = Fraction(1, 100) if flag == "--gpu-memory-utilization" else Fraction(1)
            if (flag, which) == ("--kv-cache-memory-bytes", "most"):
                step = Fraction(need.layout.block_bytes)
            beyond = Fraction(value) + (step if which == "most" else -step)
            if beyond > 0 and (step >= 1 or beyond <= 1):
                changed = with_flag(options, flag, fraction_text(beyond))
                assert errors(gate_a(facts, need, changed).outcome) != []


@given(questions())
def test_i13_where_it_is_said_that_nothing_fits_nothing_does(
    question: tuple[DeviceFacts, Need, Options],
) -> None:
    """Also on an idle device: what only others keep from fitting is told as that."""
    facts, need, options = question
    for refusal in gate_a(facts, need, options).outcome.findings:
        if not refusal.fix.startswith("no length and no utilization fits here"):
            continue
        idle = replace(facts, free_bytes=facts.total_bytes)
        shortest = replace(options, max_model_len=1, auto_max_model_len=False)
        others = [replace(options, gpu_memory_utilization=Fraction(n, 100)) for n in range(1, 101)]
        assert all(gate_a(idle, need, other).plan is None for other in (shortest, *others))


def told(refusal: Finding) -> list[str]:
    values = [str(place.value) for place in refusal.locations]
    return [refusal.message, refusal.fix, *values]


@given(questions())
def test_i14_no_refusal_and_no_ledger_prints_a_negative_size(
    question: tuple[DeviceFacts, Need, Options],
) -> None:
    facts, need, options = question
    early = gate_a(facts, need, options)
    measured = Measured(GIB, 2 * GIB, facts.free_bytes or 0)
    late = gate_b(facts, need, options, SHAPE, measured)
    for decided in (early, late):
        assert decided.memory is not None
        lines = [render_memory(decided.memory, Style())]
        for refusal in decided.outcome.findings:
            lines += told(refusal)
        assert not [line for line in lines if re.search(r"(?<![\w-])-[0-9]", line)]


def report(source: MemorySource, need: Need) -> str:
    """The decision on a source with the same integers, as it is printed, but for the device."""
    measured = Measured(source.used_by_us_bytes(), MIB, source.free_bytes())
    facts = replace(source.facts, reason="", notes=(), tenants=())
    decided = gate_b(facts, need, make_options(max_model_len=16), SHAPE, measured)
    assert decided.plan is not None
    assert decided.memory is not None
    return render_memory(decided.memory._replace(device=""), Style()) + str(decided.outcome)


def test_i12_three_sources_with_the_same_integers_print_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeMachine(tmp_path)
    need = replace(make_need(), weights=WeightBytes(100 * MIB))
    host_source, _ = open_device(make_facts(kind=DeviceKind.CPU), host.machine())
    cuda = FakeCuda()
    cuda.patch(monkeypatch)
    cuda.total, cuda.free = 1000 * MIB, 800 * MIB
    nvml = fake_nvml([fake_gpu(f"GPU-{UUID}", 1010 * MIB, 800 * MIB)])
    before = make_facts(exact=False, uuid=f"GPU-{UUID}", free_bytes=804 * MIB)
    cuda_source, _ = open_device(before, host.machine(nvml))
    fixed = make_facts(total_bytes=1000 * MIB, free_bytes=800 * MIB, own_bytes=4 * MIB)
    assert host_source is not None
    assert cuda_source is not None
    reports = [
        report(source, need)
        for source in (host_source, cuda_source, FixedSource(fixed, [800 * MIB], [4 * MIB]))
    ]
    assert "1000.00 MiB" in reports[0]
    assert reports[0] == reports[1] == reports[2]


def decided(machine: Any) -> tuple[GateResult, tuple[str, ...], list[str]]:
    facts, outcome = find_device("cuda", {}, machine)
    assert facts is not None
    source, opened = open_device(facts, machine)
    assert source is not None
    assert not opened.refused
    need = replace(make_need(), weights=WeightBytes(10 * MIB))
    options = make_options(max_model_len=16, memory_margin_bytes=0)
    return gate_a(source.facts, need, options), source.facts.remarks, rules(outcome)


FAILING: dict[str, dict[str, str]] = {
    "Not Supported": {"nvmlInit": "Not Supported"},
    "Not Found": {"nvmlDeviceGetCount": "Not Found"},
    "Insufficient Permissions": {"nvmlInit": "Insufficient Permissions"},
    "Driver Not Loaded": {"nvmlInit": "Driver Not Loaded"},
}


def test_i17_an_nvml_that_is_absent_or_fails_changes_what_is_told_and_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeMachine(tmp_path)
    (host.root / "dev/nvidiactl").touch()
    cuda = FakeCuda()
    cuda.patch(monkeypatch)
    cuda.free = 78 * MIB
    absent, remarks, found = decided(host.machine())
    assert found == ["SD603"]
    assert absent.plan is not None
    for reason, failing in FAILING.items():
        result, others, found = decided(host.machine(fake_nvml([fake_gpu("GPU-a")], failing)))
        assert found == ["SD603"]
        assert any(reason in line for line in others)
        assert others != remarks
        assert (result.plan, result.outcome) == (absent.plan, absent.outcome)
    # Figures that are left out are no failure, and change no number either.
    silent = dict.fromkeys(("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID"), "Not Supported")
    result, _, found = decided(host.machine(fake_nvml([fake_gpu("GPU-a")], silent)))
    assert found == []
    assert result.plan == absent.plan


@pytest.mark.parametrize("length", [61, 64])
def test_the_longest_request_that_is_promised_runs_to_its_end(length: int) -> None:
    """The pool's first block is nobody's: a pool that counts it has no room for the last tokens."""
    target, draft = make_target(make_target_config(), torch.float64), make_draft()
    layout = kv_layout(make_target_config(), draft, 8, 4)
    found = make_plan(layout, layout.need_blocks(length) * layout.block_bytes, length)
    shape = PoolShape(layout.target, layout.draft, found.num_blocks, layout.block_tokens)
    pool = KvPool.allocate(shape, torch.float64, torch.device("cpu"))
    speculator = Speculator.of(target, make_drafter(draft, torch.float64), pool)
    prompt = random_tokens(length - 20)
    blocks = list(range(RESERVED_BLOCKS, found.num_blocks))
    done = speculator.run(pool.table(blocks), prompt, 20)
    assert list(done.tokens) == decode_whole(target, prompt, 20)
    with pytest.raises(KvPoolError):
        speculator.run(pool.table(blocks[1:]), prompt, 20)
