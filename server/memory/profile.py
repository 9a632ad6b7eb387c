"""How much memory the largest step takes, measured by running it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from server.config.rules import finding
from server.findings import Finding, Location, Outcome, first_line, outcome_of
from server.memory.kv_layout import KvLayout
from server.memory.largest import row_bytes, too_large
from server.memory.oom import out_of_memory
from server.memory.shape import RunShape
from server.memory.source import MemorySource, others_bytes
from server.memory.units import bytes_text
from server.model.dflash import BlockDrafter
from server.model.kv import KvPool, PoolShape
from server.model.qwen3 import Qwen3Target
from server.model.steps import StepShape, blocks_for_worst_step, worst_step

Step = Callable[[Qwen3Target, BlockDrafter | None, KvPool, StepShape], None]


@dataclass(frozen=True, slots=True)
class Models:
    """The loaded pair."""

    target: Qwen3Target
    drafter: BlockDrafter | None = None


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """The peak of one phase. `views` holds each independent measurement of it."""

    phase: str
    peak_bytes: int
    views: dict[str, int]


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured.

    `activation_bytes`: the largest phase's peak. `runtime_growth_bytes`: what stays after the
    first steps besides weights (libraries and kernels that load late). `free_bytes`: the
    smaller of what was free before and after.
    """

    activation_bytes: int
    runtime_growth_bytes: int
    free_bytes: int
    phases: tuple[PhasePeak, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """The steps to measure: their limits, and how they are run."""

    layout: KvLayout
    shape: StepShape
    run: Step = worst_step

    def phases(self, models: Models) -> tuple[tuple[str, StepShape], ...]:
        """Each phase at its own worst, with the other one made small."""
        second = "decode" if models.drafter is None else "draft and verify"
        return (
            ("prefill", replace(self.shape, num_seqs=1)),
            (second, replace(self.shape, prefill_tokens=1)),
        )


class StepOutOfMemory(Exception):
    """A phase of a step ran out of memory; `finding` is the SD504 that says so."""

    def __init__(self, refusal: Finding) -> None:
        """Carry the refusal."""
        super().__init__(refusal.message)
        self.finding = refusal


def step_shape(shape: RunShape, max_model_len: int) -> StepShape:
    """The largest step of requests up to `max_model_len` tokens."""
    return StepShape(
        prefill_tokens=shape.max_num_batched_tokens,
        num_seqs=shape.max_num_seqs,
        verify_tokens=shape.verify_tokens,
        max_model_len=max_model_len,
    )


def profile(
    source: MemorySource, models: Models, work: Workload, margin_bytes: int
) -> tuple[Profile | None, Outcome]:
    """Run every phase once for warm-up and once measured, over a small pool of its own.

    None comes with SD504. When others move more than `margin_bytes` meanwhile, and more than
    the source's noise, it is measured once more (SD512). Any other exception passes through.
    """
    moved: list[Finding] = []
    if refusals := _hopeless(models, work.shape, source.free_bytes()):
        return None, outcome_of("SD504", refusals)
    try:
        found, moved_bytes = _attempt(source, models, work)
        most_bytes = max(margin_bytes, source.noise_bytes)
        # All ranks measure again, or none: their steps are one.
        if models.target.group.any(abs(moved_bytes) > most_bytes):
            moved.append(_moved(moved_bytes))
            found, _ = _attempt(source, models, work)
    except StepOutOfMemory as error:
        return None, outcome_of("SD504", (error.finding,))
    return found, outcome_of("SD504", ()) + outcome_of("SD512", moved)


def measure_phases(
    source: MemorySource, models: Models, work: Workload, pool: KvPool
) -> tuple[PhasePeak, ...]:
    """The peak of every phase over `pool`, which is not part of it. Raises StepOutOfMemory."""
    found = []
    for name, shape in work.phases(models):
        with source.peak() as peak:
            _run(source, name, models, (work, pool, shape))
        found.append(PhasePeak(name, peak.growth_bytes, dict(peak.views)))
    return tuple(found)


def run_once(source: MemorySource, models: Models, work: Workload) -> tuple[PhasePeak, ...]:
    """The peak of every phase without a warm-up, for a source on which nothing is computed."""
    return measure_phases(source, models, work, _small_pool(source, models, work))


def _attempt(source: MemorySource, models: Models, work: Workload) -> tuple[Profile, int]:
    """One profile, and how much memory others took meanwhile (negative: gave back)."""
    source.settle()
    used_before, free_before = source.used_by_us_bytes(), source.free_bytes()
    others_before = others_bytes(source)
    phases = _over_small_pool(source, models, work)
    source.settle()
    grown = max(0, source.used_by_us_bytes() - used_before)
    found = Profile(
        activation_bytes=max(phase.peak_bytes for phase in phases),
        runtime_growth_bytes=grown,
        free_bytes=min(free_before, source.free_bytes()),
        phases=phases,
    )
    return found, others_bytes(source) - others_before


def _over_small_pool(source: MemorySource, models: Models, work: Workload) -> tuple[PhasePeak, ...]:
    """Warm up, then measure; the pool is gone afterwards."""
    pool = _small_pool(source, models, work)
    for name, shape in work.phases(models):
        _run(source, f"warm-up of {name}", models, (work, pool, shape))
    return measure_phases(source, models, work, pool)


def _small_pool(source: MemorySource, models: Models, work: Workload) -> KvPool:
    layout = work.layout
    blocks = blocks_for_worst_step(work.shape, layout.block_tokens)
    shape = PoolShape(layout.target, layout.draft, blocks, layout.block_tokens)
    try:
        with source.guard():
            pool = KvPool.allocate(shape, models.target.dtype, source.torch_device)
            zero(pool)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        refusal = _refusal(f"a pool of {blocks} KV blocks", work.shape, error)
        raise StepOutOfMemory(refusal) from error
    return pool


def zero(pool: KvPool) -> None:
    """Write the whole pool, so that it is resident and holds numbers."""
    for storage in (pool.target, pool.draft):
        if storage is not None:
            storage.zero_()


def _run(
    source: MemorySource, name: str, models: Models, what: tuple[Workload, KvPool, StepShape]
) -> None:
    work, pool, shape = what
    try:
        with source.guard():
            work.run(models.target, models.drafter, pool, shape)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise StepOutOfMemory(_refusal(name, shape, error)) from error


def _hopeless(models: Models, shape: StepShape, free_bytes: int) -> tuple[Finding, ...]:
    """SD504 for a step that has no room by now: told at once, without minutes of building it."""
    target, drafter = models.target, models.drafter
    draft = None if drafter is None else drafter.config
    rows = row_bytes(target.config, draft, target.dtype.itemsize, target.group.share)
    step = RunShape(shape.prefill_tokens, shape.num_seqs, shape.verify_tokens - 1, {})
    return too_large(step, rows, free_bytes, shape.max_model_len)


def _refusal(phase: str, shape: StepShape, error: BaseException) -> Finding:
    rows = shape.num_seqs * shape.verify_tokens
    return finding(
        "SD504",
        f"{phase} ran out of memory at {shape.prefill_tokens} prefill tokens, {rows} rows of "
        f"{shape.num_seqs} requests, context {shape.max_model_len}",
        Location("step", value=shape.prefill_tokens, source="tokens of a prefill step"),
        Location("step", value=rows, source="rows of a verify step"),
        Location("allocator", value=first_line(error)),
    )


def _moved(moved_bytes: int) -> Finding:
    verb = "took" if moved_bytes > 0 else "released"
    return finding(
        "SD512",
        f"others {verb} {bytes_text(abs(moved_bytes))} during the profile, which was repeated",
        Location("device", value=abs(moved_bytes), source=f"bytes that others {verb}"),
    )
