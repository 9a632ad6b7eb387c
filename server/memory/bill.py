"""What one rank is billed, as ledger lines that sum to the limit. Pure integers."""

from dataclasses import dataclass
from fractions import Fraction

from server.report import LedgerLine

RUNTIME = "runtime"
TARGET_WEIGHTS = "target weights"
DRAFT_WEIGHTS = "draft weights"
ACTIVATION = "activation"
VERIFY_LOGITS = "verify logits"
GRAPHS = "graphs"
MARGIN = "margin"
KV_POOL = "KV pool"
UNUSED = "unused"


def limit_bytes(utilization: Fraction, total_bytes: int) -> int:
    """The most this server may use: utilization x total, rounded down.

    Exact: as a float, 0.29 x 104857600 loses a byte.
    """
    return utilization.numerator * total_bytes // utilization.denominator


@dataclass(frozen=True, slots=True)
class Charges:
    """Bytes that are spent before the KV pool.

    `runtime_bytes`: CUDA context, libraries and the interpreter. `activation_bytes`: peak of the
    largest step. `verify_logits_bytes` and `graphs_bytes` are billed apart only where the
    measured step does not contain them. `margin_bytes`: reserve that the operator sets.
    """

    runtime_bytes: int = 0
    target_weights_bytes: int = 0
    draft_weights_bytes: int = 0
    activation_bytes: int = 0
    verify_logits_bytes: int = 0
    graphs_bytes: int = 0
    margin_bytes: int = 0

    @property
    def weights_bytes(self) -> int:
        """Target and draft together."""
        return self.target_weights_bytes + self.draft_weights_bytes

    @property
    def resident_bytes(self) -> int:
        """What is held when the pool is sized: runtime and weights."""
        return self.runtime_bytes + self.weights_bytes

    @property
    def fixed_bytes(self) -> int:
        """Every charge."""
        transient = self.activation_bytes + self.verify_logits_bytes + self.graphs_bytes
        return self.resident_bytes + transient + self.margin_bytes

    def lines(self) -> tuple[LedgerLine, ...]:
        """One line per charge; charges that this boot does not have are left out."""
        always = {RUNTIME, TARGET_WEIGHTS, ACTIVATION, MARGIN}
        charges = (
            (RUNTIME, self.runtime_bytes),
            (TARGET_WEIGHTS, self.target_weights_bytes),
            (DRAFT_WEIGHTS, self.draft_weights_bytes),
            (ACTIVATION, self.activation_bytes),
            (VERIFY_LOGITS, self.verify_logits_bytes),
            (GRAPHS, self.graphs_bytes),
            (MARGIN, self.margin_bytes),
        )
        return tuple(LedgerLine(name, size) for name, size in charges if size or name in always)


@dataclass(frozen=True, slots=True)
class Rank:
    """One device's integers.

    `ceiling_bytes`: what this server could hold here at most, that is, what is free plus what
    it holds already; None when that is not known.
    """

    total_bytes: int
    charges: Charges = Charges()
    ceiling_bytes: int | None = None

    def budget_bytes(self, utilization: Fraction) -> int:
        """What the limit leaves for the pool; negative when the charges exceed the limit."""
        return limit_bytes(utilization, self.total_bytes) - self.charges.fixed_bytes

    def physical_bytes(self) -> int | None:
        """What the device has room for beside the charges, whatever the limit says."""
        if self.ceiling_bytes is None:
            return None
        return self.ceiling_bytes - self.charges.fixed_bytes

    def granted_bytes(self, utilization: Fraction) -> int:
        """What the pool may take: the smaller of budget and room, never below 0."""
        budget, room = self.budget_bytes(utilization), self.physical_bytes()
        return max(0, budget if room is None else min(budget, room))


def ledger(rank: Rank, utilization: Fraction, pool: LedgerLine) -> tuple[LedgerLine, ...]:
    """The charges, the pool and what is left unused: together exactly the limit.

    Where the charges and the pool exceed the limit, nothing is unused and the lines sum to what
    would be needed.
    """
    left = rank.budget_bytes(utilization) - pool.billed_bytes
    return (*rank.charges.lines(), pool, LedgerLine(UNUSED, max(0, left)))
