"""The two memory gates. Both ask the one planner; they differ in what is known.

Gate A runs before anything is loaded and uses lower bounds only: it refuses what cannot fit and
nothing else (NVIDIA/TensorRT-LLM pull request 19466 shows what an early estimate does). Gate B
runs after the profile, with measured numbers, and is the authority.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from server.config.rules import finding
from server.findings import Finding, Location, Outcome, outcome_by_rule, outcome_of
from server.memory.bill import UNUSED, Charges, Rank
from server.memory.facts import DeviceFacts
from server.memory.need import Need
from server.memory.planner import Plan, PlanRequest, Shortfall, longest_tokens, plan
from server.memory.refusal import Case, refuse, too_busy
from server.memory.shape import RunShape
from server.memory.suggest import busy
from server.memory.units import bytes_text
from server.options import Options, fraction_text
from server.report import MemoryFacts

_FIT_RULES = ("SD501", "SD502", "SD503")


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured before the pool is sized.

    `runtime_bytes`: what this process holds besides weights; `free_bytes`: free now, with the
    weights loaded. The activation contains the verify step's logits. `ranks`: where there are
    several, what `measured_rank` made of each one's figures, in order of rank; `devices`: theirs.
    """

    runtime_bytes: int
    activation_bytes: int
    free_bytes: int
    ranks: tuple[Rank, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate decided. `memory` holds the ledger, also of a refusal; `plan` None if refused.

    `longest_tokens`: the longest request that would fit, as far as gate A knows.
    """

    plan: Plan | None
    memory: MemoryFacts | None
    outcome: Outcome
    longest_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """What `--plan` adds to what gate A knows: a predicted peak, and the cap on the pool."""

    activation_bytes: int = 0
    max_num_seqs: int | None = None


def gate_a(
    facts: DeviceFacts, need: Need, options: Options, expected: Expected | None = None
) -> GateResult:
    """Refuse what cannot fit, before anything is loaded: weights, margin and the smallest pool.

    Runs again once CUDA tells its own total; where no total is known, the fit is skipped.
    """
    expected = expected or Expected()
    if facts.total_bytes is None:
        return GateResult(None, None, _skip_fit("the device's memory is not known yet"))
    charges = Charges(
        target_weights_bytes=need.weights.target_bytes,
        draft_weights_bytes=need.weights.draft_bytes,
        activation_bytes=expected.activation_bytes,
        margin_bytes=options.memory_margin_bytes,
    )
    ceiling = None if facts.free_bytes is None else facts.free_bytes + facts.own_bytes
    ranks = (Rank(facts.total_bytes, charges, ceiling),)
    request = plan_request(need, options, ranks, expected.max_num_seqs)
    result = _fits(Case(facts, need, options, measured=False), request)
    return replace(result, longest_tokens=longest_tokens(request, need.limit_tokens))


def _fits(case: Case, request: PlanRequest) -> GateResult:
    """What can never fit is told before what does not fit just now."""
    roomy = tuple(replace(rank, ceiling_bytes=None) for rank in request.ranks)
    never = plan(replace(request, ranks=roomy))
    if isinstance(never, Shortfall):
        return _refused(case, never, request.ranks)
    found = plan(request)
    if isinstance(found, Shortfall):
        return _refused(case, found, request.ranks)
    if case.facts.exact and busy(request):
        return _refusal(case, too_busy(case, request, 0), found)
    return GateResult(found, memory_facts(case, found), outcome_by_rule(_FIT_RULES))


def gate_b(
    facts: DeviceFacts, need: Need, options: Options, shape: RunShape, measured: Measured
) -> GateResult:
    """Size the pool from measured numbers, or refuse with the same ledger."""
    ranks = measured.ranks or (measured_rank(facts, need, options, measured),)
    found = plan(plan_request(need, options, ranks, shape.max_num_seqs))
    case = Case(facts, need, options)
    if isinstance(found, Shortfall):
        return _refused(_where_it_fails(case, found, measured), found, ranks)
    idle = outcome_of("SD511", _idle(found, shape))
    return GateResult(found, memory_facts(case, found), outcome_by_rule(_FIT_RULES) + idle)


def _where_it_fails(case: Case, found: Shortfall, measured: Measured) -> Case:
    """The case with the device of the rank whose figures the refusal shows."""
    if not measured.devices:
        return case
    rank = found.limiting_rank
    return replace(case, facts=measured.devices[rank], rank=rank)


def measured_rank(facts: DeviceFacts, need: Need, options: Options, measured: Measured) -> Rank:
    """The integers of this rank, as measured."""
    charges = Charges(
        runtime_bytes=measured.runtime_bytes,
        target_weights_bytes=need.weights.target_bytes,
        draft_weights_bytes=need.weights.draft_bytes,
        activation_bytes=measured.activation_bytes,
        margin_bytes=options.memory_margin_bytes,
    )
    ceiling = measured.free_bytes + charges.resident_bytes
    return Rank(facts.total_bytes or 0, charges, ceiling)


def plan_request(
    need: Need, options: Options, ranks: tuple[Rank, ...], max_num_seqs: int | None
) -> PlanRequest:
    """The request that these settings make; without a length, the model's own limit is served."""
    return PlanRequest(
        layout=need.layout,
        utilization=options.gpu_memory_utilization,
        ranks=ranks,
        max_model_len=options.max_model_len or need.limit_tokens,
        fit_length=options.auto_max_model_len,
        max_num_seqs=max_num_seqs,
        kv_cache_bytes=options.kv_cache_memory_bytes,
    )


def memory_facts(case: Case, found: Plan | Shortfall) -> MemoryFacts:
    """The ledger as it is reported."""
    facts = case.facts
    return MemoryFacts(
        device=facts.label,
        total_bytes=facts.total_bytes or 0,
        limit_bytes=found.limit_bytes,
        utilization=fraction_text(case.options.gpu_memory_utilization),
        ledger=found.ledger,
        kv=found.kv if isinstance(found, Plan) else None,
        notes=facts.remarks,
    )


def _refused(case: Case, shortfall: Shortfall, ranks: tuple[Rank, ...]) -> GateResult:
    return _refusal(case, refuse(case, shortfall, ranks), shortfall)


def _refusal(case: Case, refusal: Finding, found: Plan | Shortfall) -> GateResult:
    skip = dict.fromkeys(_FIT_RULES, f"waits on {refusal.rule}")
    return GateResult(
        None, memory_facts(case, found), outcome_by_rule(_FIT_RULES, (refusal,), skip)
    )


def _idle(found: Plan, shape: RunShape) -> Iterator[Finding]:
    """SD511: more than 5 % of the limit stays unused."""
    unused = next(line for line in found.ledger if line.line == UNUSED).billed_bytes
    if unused * 20 <= found.limit_bytes:
        return
    kv = found.kv
    yield finding(
        "SD511",
        f"{bytes_text(unused)} of {bytes_text(found.limit_bytes)} stay unused",
        Location("unused", value=unused, source="in bytes"),
        Location(
            "pool",
            value=kv.usable_tokens,
            source=f"tokens, all that {shape.max_num_seqs} requests of {kv.max_model_len} can use",
        ),
    )


def _skip_fit(reason: str) -> Outcome:
    return outcome_by_rule(_FIT_RULES, skip=dict.fromkeys(_FIT_RULES, reason))
