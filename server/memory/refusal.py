"""A shortfall as a finding: need and have, by how much, and only changes that were tried."""

from dataclasses import dataclass, replace

from server.config.rules import finding
from server.findings import Finding, Location
from server.memory.bill import Rank, limit_bytes
from server.memory.facts import DeviceFacts
from server.memory.need import Need
from server.memory.planner import Cause, PlanRequest, Shortfall
from server.memory.suggest import Suggestion, calmer, suggestions
from server.memory.units import apart, bytes_text
from server.options import Options, fraction_text

_POOL_FLAG = "--kv-cache-memory-bytes"
_LATER = "once other processes have released memory:"
_UNMEASURED = "the largest step, measured after the load, may need more"


@dataclass(frozen=True, slots=True)
class Case:
    """What a memory finding is about: the device, the pair and the operator's settings.

    `measured` is False before the largest step was measured: then a fix is a lower bound.
    `rank` is whose device it is, where there are several.
    """

    facts: DeviceFacts
    need: Need
    options: Options
    measured: bool = True
    rank: int | None = None

    def settings(self) -> tuple[Location, ...]:
        """The limit's flag and the device, which every memory refusal names."""
        options = self.options
        whose = "" if self.rank is None else f"rank {self.rank}: "
        device = f"{whose}{self.facts.label}, total"
        return (
            Location(
                "flag",
                flag="--gpu-memory-utilization",
                value=fraction_text(options.gpu_memory_utilization),
                source=options.source("gpu_memory_utilization"),
            ),
            Location("device", value=self.facts.total_bytes, source=device),
        )


def refuse(case: Case, shortfall: Shortfall, ranks: tuple[Rank, ...]) -> Finding:
    """The finding of a shortfall: SD501, SD502 or SD503. `ranks` hold what is free now."""
    if shortfall.cause is Cause.WEIGHTS:
        return _weights(case, shortfall, ranks)
    if shortfall.cause is Cause.BUSY:
        return too_busy(case, shortfall.request, shortfall.need_bytes, shortfall.limiting_rank)
    return _pool(case, shortfall, ranks)


def too_busy(case: Case, request: PlanRequest, pool_bytes: int, limiting_rank: int = 0) -> Finding:
    """SD503: others hold memory that the limit, or the smallest pool of `pool_bytes`, needs."""
    rank = request.ranks[limiting_rank]
    ceiling = rank.ceiling_bytes or 0
    limit = limit_bytes(request.utilization, rank.total_bytes)
    smallest = rank.charges.fixed_bytes + pool_bytes
    wanted, named = (limit, "the limit") if limit > ceiling else (smallest, "what is needed")
    wanted_text, free_text = apart(wanted, ceiling)
    wait = f"wait until other processes release {bytes_text(max(0, wanted - ceiling))}"
    other = calmer(request)
    return finding(
        "SD503",
        f"{named} is {wanted_text}, free is {free_text}",
        Location("need", value=wanted, source=f"{named}, in bytes"),
        Location("free", value=ceiling, source="free now, with what this server holds already"),
        *case.settings(),
        *_tenants(case.facts),
        fix=f"{wait}, or {_fix(case, (other,))}" if other else wait,
    )


def _weights(case: Case, shortfall: Shortfall, ranks: tuple[Rank, ...]) -> Finding:
    charges = shortfall.rank.charges
    weights, limit = apart(charges.weights_bytes, shortfall.limit_bytes)
    return finding(
        "SD501",
        f"weights take {weights}, the limit is {limit}",
        Location("target", value=charges.target_weights_bytes, source="weights, in bytes"),
        Location("draft", value=charges.draft_weights_bytes, source="weights, in bytes"),
        Location("limit", value=shortfall.limit_bytes, source="in bytes"),
        *case.settings(),
        fix=_advice(case, shortfall, ranks),
    )


def _pool(case: Case, shortfall: Shortfall, ranks: tuple[Rank, ...]) -> Finding:
    need_blocks, have_blocks = shortfall.need_blocks, shortfall.have_blocks
    need, have = apart(shortfall.need_bytes, shortfall.have_bytes)
    asked = case.options.kv_cache_memory_bytes
    pool_flag = () if asked is None else (Location("flag", flag=_POOL_FLAG, value=asked),)
    length = shortfall.length_tokens
    wants = "1 token needs" if length == 1 else f"{length} tokens need"
    if need_blocks > shortfall.request.layout.need_blocks(length):
        wants = f"{_POOL_FLAG} asks for"
    return finding(
        "SD502",
        f"{wants} {need_blocks} KV blocks ({need}), {have_blocks} fit ({have})",
        Location("need", value=shortfall.need_bytes, source=f"{need_blocks} blocks, in bytes"),
        Location("have", value=shortfall.have_bytes, source=f"{have_blocks} blocks fit, in bytes"),
        Location("missing", value=shortfall.missing_bytes, source="in bytes"),
        Location(
            "longest", value=shortfall.longest_tokens, source=f"tokens in {have_blocks} blocks"
        ),
        *pool_flag,
        *case.settings(),
        fix=_advice(case, shortfall, ranks),
    )


def _advice(case: Case, shortfall: Shortfall, ranks: tuple[Rank, ...]) -> str:
    """The changes that fit now; else those that fit once others have released the device."""
    now = suggestions(shortfall, ranks)
    alone = tuple(replace(rank, ceiling_bytes=None) for rank in ranks)
    later = () if now else suggestions(shortfall, alone)
    return f"{_LATER} {_fix(case, later)}" if later else _fix(case, now)


def _fix(case: Case, found: tuple[Suggestion, ...]) -> str:
    """The changes that were re-planned, or the news that there is none."""
    if not found:
        return "no length and no utilization fits here: use a larger device or a smaller model"
    changes = " or ".join(f"{change.text} ({change.bound})" for change in found)
    return changes if case.measured else f"{changes}; {_UNMEASURED}"


def _tenants(facts: DeviceFacts) -> tuple[Location, ...]:
    """The other users of the device, as the driver tells them."""
    return tuple(
        Location("tenant", value=tenant.used_bytes, source=f"{tenant.label}, in bytes")
        for tenant in facts.tenants
    )
