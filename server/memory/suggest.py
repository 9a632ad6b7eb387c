"""What the operator could change. A suggestion is applied and re-planned before it is printed.

Advice that was not tried sends people in circles: sgl-project/sglang issues 322 and 4330.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from server.memory.bill import Rank, limit_bytes
from server.memory.planner import Plan, PlanRequest, Shortfall, plan
from server.options import fraction_text

_MOST = "the most that fits"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One changed flag, and the request that it makes. `bound` says what its value is."""

    flag: str
    value: str
    request: PlanRequest
    bound: str = _MOST

    @property
    def text(self) -> str:
        """The flag as it is typed."""
        return f"{self.flag} {self.value}"


def busy(request: PlanRequest) -> bool:
    """True when the limit is above what this server could hold on one of the ranks now."""
    return any(
        rank.ceiling_bytes is not None
        and limit_bytes(request.utilization, rank.total_bytes) > rank.ceiling_bytes
        for rank in request.ranks
    )


def suggestions(shortfall: Shortfall, ranks: tuple[Rank, ...]) -> tuple[Suggestion, ...]:
    """Single changes after which the same request is accepted on `ranks`; often none.

    `ranks` are those of the shortfall, with what is free now. A change that leaves the device
    busy does not count: the next boot would be refused for that.
    """
    candidates = (*_less(shortfall), *_more(shortfall))
    return tuple(s for s in candidates if _accepted(replace(s.request, ranks=ranks)))


def _accepted(request: PlanRequest) -> bool:
    return isinstance(plan(request), Plan) and not busy(request)


def calmer(request: PlanRequest) -> Suggestion | None:
    """The largest utilization in hundredths at which a busy device still serves `request`."""
    hundredths = min(
        rank.ceiling_bytes * 100 // rank.total_bytes
        for rank in request.ranks
        if rank.ceiling_bytes is not None
    )
    found = _utilization(request, Fraction(hundredths, 100), "the most that is free")
    return found if hundredths > 0 and _accepted(found.request) else None


def _less(shortfall: Shortfall) -> tuple[Suggestion, ...]:
    """Ask for less: a shorter request, a smaller or a large enough pool of the operator's own."""
    request, found = shortfall.request, []
    if shortfall.longest_tokens and not request.fit_length:
        length = shortfall.longest_tokens
        found.append(
            Suggestion("--max-model-len", str(length), replace(request, max_model_len=length))
        )
    if request.kv_cache_bytes is not None:
        found.extend(_pool_sizes(shortfall, request))
    return tuple(found)


def _pool_sizes(shortfall: Shortfall, request: PlanRequest) -> Iterator[Suggestion]:
    sizes = {shortfall.have_blocks: _MOST}
    length = shortfall.length_tokens
    sizes.setdefault(request.layout.need_blocks(length), f"the least that serves {length} tokens")
    for size, bound in sizes.items():
        size_bytes = size * request.layout.block_bytes
        changed = replace(request, kv_cache_bytes=size_bytes)
        yield Suggestion("--kv-cache-memory-bytes", str(size_bytes), changed, bound)


def _more(shortfall: Shortfall) -> tuple[Suggestion, ...]:
    """Allow more: the smallest utilization in hundredths whose limit covers what is needed."""
    rank = shortfall.rank
    needed = rank.charges.fixed_bytes + shortfall.need_bytes
    hundredths = -(-needed * 100 // rank.total_bytes)
    value = Fraction(hundredths, 100)
    found = _utilization(shortfall.request, value, "the least that is enough")
    higher = shortfall.request.utilization < found.request.utilization <= 1
    return (found,) if higher else ()


def _utilization(request: PlanRequest, value: Fraction, bound: str) -> Suggestion:
    changed = replace(request, utilization=value)
    return Suggestion("--gpu-memory-utilization", fraction_text(value), changed, bound)
