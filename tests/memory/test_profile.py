"""The profile on tiny real models, and what happens when a step fails."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from server.findings import ExitCode
from server.memory.facts import Machine, host_facts
from server.memory.host_source import HostSource
from server.memory.kv_layout import KvLayout, kv_layout
from server.memory.largest import row_bytes
from server.memory.oom import out_of_memory
from server.memory.profile import Models, Workload, measure_phases, profile, step_shape
from server.memory.shape import RunShape
from server.model.dflash import BlockDrafter
from server.model.kv import KvPool
from server.model.qwen3 import Qwen3Target
from server.model.steps import StepShape
from server.weights.parts import WHOLE
from tests.memory.fake_machine import MIB
from tests.memory.make import FixedSource, errors, make_facts, only, rules
from tests.model.tiny import make_draft, make_drafter, make_target, make_target_config

MARGIN = 150 * MIB
SHAPE = StepShape(prefill_tokens=32, num_seqs=2, verify_tokens=5, max_model_len=64)


def make_models(drafted: bool = True) -> tuple[Models, KvLayout]:
    config, draft = make_target_config(), make_draft()
    target = make_target(config, torch.float32)
    drafter = make_drafter(draft, torch.float32) if drafted else None
    return Models(target, drafter), kv_layout(config, draft if drafted else None, 4, 4)


def make_host() -> HostSource:
    return HostSource(host_facts(Machine(), "test"), Machine())


def fixed(**changes: Any) -> FixedSource:
    """A device of which 100 MiB are free and 10 ours."""
    fields: dict[str, Any] = {"free": [100 * MIB], "used": [10 * MIB], "growth": (0,)}
    return FixedSource(make_facts(total_bytes=200 * MIB), **{**fields, **changes})


def failing(error: BaseException, at_prefill: bool) -> Callable[..., None]:
    """A step that raises `error` in one of the two phases."""

    def run(
        target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, shape: StepShape
    ) -> None:
        if (shape.num_seqs == 1) == at_prefill:
            raise error

    return run


def allocating(prefill_mib: int, second_mib: int) -> Callable[..., None]:
    """A step of known size."""

    def run(
        target: Qwen3Target, drafter: BlockDrafter | None, pool: KvPool, shape: StepShape
    ) -> None:
        torch.ones((prefill_mib if shape.num_seqs == 1 else second_mib) * MIB // 4)

    return run


@pytest.mark.parametrize(
    ("drafted", "names"),
    [(True, ["prefill", "draft and verify"]), (False, ["prefill", "decode"])],
)
def test_the_real_step_is_measured_phase_by_phase(drafted: bool, names: list[str]) -> None:
    models, layout = make_models(drafted)
    found, outcome = profile(make_host(), models, Workload(layout, SHAPE), MARGIN)
    assert errors(outcome) == []
    assert found is not None
    assert [phase.phase for phase in found.phases] == names
    assert found.activation_bytes == max(phase.peak_bytes for phase in found.phases)
    # 32 rows of 24 float32 and more: at least the hidden states are there.
    assert all(phase.views["torch storages"] > 5 * 24 * 4 for phase in found.phases)


def test_more_prefill_tokens_take_more_memory() -> None:
    models, layout = make_models()
    peaks = []
    for tokens in (16, 64):
        work = Workload(layout, replace(SHAPE, prefill_tokens=tokens))
        found, _ = profile(make_host(), models, work, MARGIN)
        assert found is not None
        peaks.append(found.phases[0].views["torch storages"])
    assert peaks[1] > 2 * peaks[0]


@pytest.mark.parametrize("sizes", [(8, 2), (2, 8)])
def test_the_largest_phase_is_billed(sizes: tuple[int, int]) -> None:
    models, layout = make_models()
    found, _ = profile(make_host(), models, Workload(layout, SHAPE, allocating(*sizes)), MARGIN)
    assert found is not None
    assert [phase.views["torch storages"] for phase in found.phases] == [s * MIB for s in sizes]
    assert 8 * MIB <= found.activation_bytes < 10 * MIB


def host_allocator_error() -> BaseException:
    """What torch's host allocator really raises."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    return caught.value


def test_the_host_allocators_error_is_told_apart() -> None:
    assert out_of_memory(host_allocator_error())
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not out_of_memory(ValueError("DefaultCPUAllocator"))


@pytest.mark.parametrize(
    "make_error",
    [host_allocator_error, lambda: torch.OutOfMemoryError("CUDA out of memory"), MemoryError],
)
@pytest.mark.parametrize("at_prefill", [True, False])
def test_sd504_names_the_phase_and_the_shape(
    make_error: Callable[[], BaseException], at_prefill: bool
) -> None:
    models, layout = make_models()
    work = Workload(layout, SHAPE, failing(make_error(), at_prefill))
    found, outcome = profile(fixed(), models, work, MARGIN)
    assert found is None
    assert errors(outcome) == ["SD504"]
    refusal = only(outcome)
    assert refusal.exit_code is ExitCode.UNAVAILABLE
    phase = "prefill" if at_prefill else "draft and verify"
    tokens, rows, seqs = (32, 5, 1) if at_prefill else (1, 10, 2)
    assert refusal.message == (
        f"warm-up of {phase} ran out of memory at {tokens} prefill tokens, {rows} rows of {seqs} "
        "requests, context 64"
    )
    assert "does not change that" in refusal.why


@pytest.mark.parametrize("error", [RuntimeError("a kernel failed"), ValueError("no"), KeyError(1)])
def test_another_exception_is_not_called_out_of_memory(error: Exception) -> None:
    models, layout = make_models()
    with pytest.raises(type(error)) as caught:
        profile(fixed(), models, Workload(layout, SHAPE, failing(error, True)), MARGIN)
    assert caught.value is error


def test_out_of_memory_in_the_measured_run_names_that_run() -> None:
    models, layout = make_models()
    runs = []

    def run(*args: object) -> None:
        runs.append(args)
        if len(runs) == 3:
            raise MemoryError

    _, outcome = profile(fixed(), models, Workload(layout, SHAPE, run), MARGIN)
    assert only(outcome).message.startswith("prefill ran out of memory")


def test_the_small_pool_is_gone_after_the_profile() -> None:
    models, layout = make_models()
    storages: list[weakref.ref[torch.UntypedStorage]] = []

    def run(_target: object, _drafter: object, pool: KvPool, _shape: StepShape) -> None:
        assert pool.draft is not None
        storages.extend(weakref.ref(t.untyped_storage()) for t in (pool.target, pool.draft))

    profile(make_host(), models, Workload(layout, SHAPE, run), MARGIN)
    # Two phases, each run twice, over two tensors; all of it again when others move meanwhile.
    assert len(storages) in (8, 16)
    assert {storage() for storage in storages} == {None}


def test_what_stays_after_the_first_steps_is_runtime() -> None:
    models, layout = make_models()
    source = fixed(used=[10 * MIB, 10 * MIB, 13 * MIB, 13 * MIB])
    found, _ = profile(source, models, Workload(layout, SHAPE, allocating(1, 1)), MARGIN)
    assert found is not None
    assert found.runtime_growth_bytes == 3 * MIB


@pytest.mark.parametrize(
    ("free_mib", "smaller", "expected"),
    [
        ([100, 100, 90, 90], 90, ""),
        ([100, 100, 110, 110], 100, ""),
        ([100, 100, 90, 89], 90, "bytes that others took"),
        ([100, 100, 111, 111], 111, "bytes that others released"),
    ],
)
def test_sd512_others_that_move_more_than_the_margin_are_noted_and_it_is_repeated(
    free_mib: list[int], smaller: int, expected: str
) -> None:
    models, layout = make_models()
    if expected:
        free_mib = [*free_mib, *[smaller] * 4]
    first_look = 100
    source = fixed(free=[n * MIB for n in (first_look, *free_mib)], growth=(1, 1, 2, 2))
    work = Workload(layout, SHAPE, allocating(1, 1))
    found, outcome = profile(source, models, work, 10 * MIB)
    told = [(f.rule, f.locations[0].value, f.locations[0].source) for f in outcome.findings]
    assert told == ([("SD512", 11 * MIB, expected)] if expected else [])
    assert not outcome.refused
    assert found is not None
    assert found.free_bytes == smaller * MIB
    assert found.activation_bytes == (2 if expected else 1)


@pytest.mark.parametrize(("noise_mib", "expected"), [(19, ["SD512"]), (20, [])])
def test_sd512_says_nothing_of_what_is_within_the_noise(
    noise_mib: int, expected: list[str]
) -> None:
    models, layout = make_models()
    source = fixed(free=[n * MIB for n in (100, 100, 100, 80, 80)])
    source.noise_bytes = noise_mib * MIB
    work = Workload(layout, SHAPE, allocating(1, 1))
    assert rules(profile(source, models, work, 0)[1]) == expected


def test_the_limits_of_a_run_become_the_largest_step() -> None:
    shape = RunShape(256, 4, 15, {})
    assert step_shape(shape, 1000) == StepShape(256, 4, 16, 1000)


def test_the_pool_is_not_part_of_the_peak() -> None:
    models, layout = make_models()
    from server.model.kv import PoolShape

    pool = KvPool.allocate(
        PoolShape(layout.target, layout.draft, 4000, 4), torch.float32, torch.device("cpu")
    )
    phases = measure_phases(make_host(), models, Workload(layout, SHAPE), pool)
    assert pool.nbytes > 10 * MIB
    assert all(phase.views["torch storages"] < MIB for phase in phases)


@pytest.mark.parametrize("field", ["prefill_tokens", "num_seqs"])
def test_sd504_a_step_whose_input_has_no_room_is_not_even_begun(field: str) -> None:
    models, layout = make_models()
    draft = make_draft()
    row = row_bytes(make_target_config(), draft, 4, WHOLE)
    each_bytes = row.prefill if field == "prefill_tokens" else row.verify
    rows = 100 * MIB // each_bytes
    ran: list[StepShape] = []
    for more in (0, 1):
        shape = replace(SHAPE, verify_tokens=1, **{field: rows + more})
        work = Workload(layout, shape, lambda *ask: ran.append(ask[3]))
        found, outcome = profile(fixed(), models, work, MARGIN)
        assert (found is None) == bool(more)
        assert errors(outcome) == ["SD504"] * more
        assert len(ran) == 4  # two phases, twice; nothing more for what has no room
    told = only(outcome).message
    assert f"step of {rows + 1} rows takes at least {each_bytes * (rows + 1)} bytes, " in told
    assert told.endswith("there is room for 104857600 bytes")
