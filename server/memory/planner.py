"""The planner: integers in, a plan or a named shortfall out. No torch, no I/O, no floats.

The same arithmetic runs for a GPU and for host memory; only the source of the integers differs.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from server.config.geometry import RESERVED_BLOCKS
from server.memory.bill import KV_POOL, Rank, ledger, limit_bytes
from server.memory.kv_layout import KvLayout
from server.report import KvFacts, LedgerLine


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is asked of the planner.

    `max_model_len`: the length to serve, in tokens; with `fit_length` the longest length that is
    wanted, and the plan takes what fits. `max_num_seqs` caps the pool at what that many requests
    can ever use (None: no cap). `kv_cache_bytes` sets the pool's size; it must fit.
    """

    layout: KvLayout
    utilization: Fraction
    ranks: tuple[Rank, ...]
    max_model_len: int
    fit_length: bool = False
    max_num_seqs: int | None = None
    kv_cache_bytes: int | None = None


class Cause(StrEnum):
    """Why a plan is impossible."""

    WEIGHTS = "weights"
    POOL = "pool"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Plan:
    """A pool that fits on every rank. `ledger` and `granted_bytes` are the limiting rank's."""

    request: PlanRequest
    num_blocks: int
    max_model_len: int
    limiting_rank: int
    granted_bytes: int
    ledger: tuple[LedgerLine, ...]

    @property
    def limit_bytes(self) -> int:
        """What this server may use on the limiting rank."""
        rank = self.request.ranks[self.limiting_rank]
        return limit_bytes(self.request.utilization, rank.total_bytes)

    def ledger_of(self, rank: int) -> tuple[LedgerLine, ...]:
        """The ledger of any rank: its own charges, and the pool that all have."""
        pool = next(line for line in self.ledger if line.line == KV_POOL)
        return ledger(self.request.ranks[rank], self.request.utilization, pool)

    @property
    def pool_bytes(self) -> int:
        """Bytes of the pool on each rank, both caches."""
        return self.num_blocks * self.request.layout.block_bytes

    @property
    def kv(self) -> KvFacts:
        """The pool as it is reported."""
        layout = self.request.layout
        usable = self.num_blocks - RESERVED_BLOCKS
        return KvFacts(
            target_bytes_per_token=layout.target.bytes_per_token,
            draft_bytes_per_token=layout.draft_bytes_per_token,
            block_tokens=layout.block_tokens,
            block_bytes=layout.block_bytes,
            num_blocks=self.num_blocks,
            reserved_blocks=RESERVED_BLOCKS,
            usable_tokens=usable * layout.block_tokens,
            max_model_len=self.max_model_len,
            full_length_requests=usable // layout.blocks_per_request(self.max_model_len),
            target_dtype=layout.target.dtype,
            draft_dtype=layout.draft.dtype if layout.draft else None,
        )


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A pool that does not fit. `longest_tokens` is what would fit at this limit, or 0.

    `ledger` bills the smallest pool that is needed, so its lines sum to the limit or more.
    """

    request: PlanRequest
    cause: Cause
    need_blocks: int
    have_blocks: int
    length_tokens: int
    longest_tokens: int
    limiting_rank: int
    ledger: tuple[LedgerLine, ...]

    @property
    def limit_bytes(self) -> int:
        """What this server may use on the limiting rank."""
        return limit_bytes(self.request.utilization, self.rank.total_bytes)

    @property
    def rank(self) -> Rank:
        """The limiting rank."""
        return self.request.ranks[self.limiting_rank]

    @property
    def need_bytes(self) -> int:
        """Bytes of the smallest pool that is needed."""
        return self.need_blocks * self.request.layout.block_bytes

    @property
    def have_bytes(self) -> int:
        """Bytes that the pool could take: the operator's own figure where that is smaller."""
        granted = self.rank.granted_bytes(self.request.utilization)
        asked = self.request.kv_cache_bytes
        return granted if asked is None else min(granted, asked)

    @property
    def missing_bytes(self) -> int:
        """How much more is needed than the limit, the free memory or the operator leaves."""
        utilization = self.request.utilization
        bounds = (
            self.rank.budget_bytes(utilization),
            self.rank.physical_bytes(),
            self.request.kv_cache_bytes,
        )
        return self.need_bytes - min(bound for bound in bounds if bound is not None)


def plan(request: PlanRequest) -> Plan | Shortfall:
    """Size the pool: the smallest rank decides, and one request of full length must fit."""
    block_bytes = request.layout.block_bytes
    fitting = [rank.granted_bytes(request.utilization) // block_bytes for rank in request.ranks]
    available = min(fitting)
    limiting = fitting.index(available)
    wanted = available
    if request.kv_cache_bytes is not None:
        wanted = request.kv_cache_bytes // block_bytes
    length = _length(request, min(available, wanted))
    need = request.layout.need_blocks(length)
    if available < max(need, wanted) or wanted < need:
        return _shortfall(request, limiting, max(need, wanted), min(available, wanted), length)
    return _accepted(request, limiting, wanted, length)


def longest_tokens(request: PlanRequest, limit_tokens: int) -> int:
    """The longest request, up to `limit_tokens`, that fits on every rank; 0 when none does."""
    pool_bytes = min(rank.granted_bytes(request.utilization) for rank in request.ranks)
    if request.kv_cache_bytes is not None and request.kv_cache_bytes > pool_bytes:
        return 0
    pool_bytes = request.kv_cache_bytes or pool_bytes
    num_blocks = pool_bytes // request.layout.block_bytes
    return min(request.layout.longest_tokens(num_blocks), limit_tokens)


def _length(request: PlanRequest, num_blocks: int) -> int:
    """The length to serve. A fitted length is rounded down to a block, unless the model's own
    limit binds; it is at least one token, so that too small a pool is refused.
    """
    longest = request.layout.longest_tokens(num_blocks)
    if not request.fit_length or longest >= request.max_model_len:
        return request.max_model_len
    block_tokens = request.layout.block_tokens
    return longest // block_tokens * block_tokens or max(1, longest)


def _accepted(request: PlanRequest, limiting: int, blocks: int, length: int) -> Plan:
    if request.max_num_seqs is not None and request.kv_cache_bytes is None:
        usable = request.max_num_seqs * request.layout.blocks_per_request(length)
        blocks = min(blocks, RESERVED_BLOCKS + usable)
    rank = request.ranks[limiting]
    note = f"{blocks} KV blocks, {RESERVED_BLOCKS} of them reserved"
    pool = LedgerLine(KV_POOL, blocks * request.layout.block_bytes, note=note)
    return Plan(
        request=request,
        num_blocks=blocks,
        max_model_len=length,
        limiting_rank=limiting,
        granted_bytes=rank.granted_bytes(request.utilization),
        ledger=ledger(rank, request.utilization, pool),
    )


def _shortfall(request: PlanRequest, limiting: int, need: int, have: int, length: int) -> Shortfall:
    rank = request.ranks[limiting]
    need_bytes = need * request.layout.block_bytes
    pool = LedgerLine(KV_POOL, need_bytes, note=f"smallest pool that serves {length} tokens")
    return Shortfall(
        request=request,
        cause=_cause(request, rank, need_bytes),
        need_blocks=need,
        have_blocks=have,
        length_tokens=length,
        longest_tokens=min(request.layout.longest_tokens(have), request.max_model_len),
        limiting_rank=limiting,
        ledger=ledger(rank, request.utilization, pool),
    )


def _cause(request: PlanRequest, rank: Rank, need_bytes: int) -> Cause:
    if rank.charges.weights_bytes > limit_bytes(request.utilization, rank.total_bytes):
        return Cause.WEIGHTS
    room = rank.physical_bytes()
    fits_limit = need_bytes <= rank.budget_bytes(request.utilization)
    return Cause.BUSY if fits_limit and room is not None and room < need_bytes else Cause.POOL
