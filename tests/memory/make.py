"""Pairs, layouts, requests and a fake device for the tests of server/memory."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fractions import Fraction
from typing import Any

import torch

from server.config.geometry import KvGeometry
from server.config.records import AnchorLayout, BlockDraft, TargetConfig
from server.findings import CheckStatus, Finding, Outcome, Severity
from server.memory.bill import Charges, Rank
from server.memory.facts import DeviceFacts, DeviceKind
from server.memory.kv_layout import KvLayout
from server.memory.need import Need, WeightBytes, need_of
from server.memory.planner import Plan, PlanRequest, Shortfall, plan
from server.memory.source import Peak, Taken
from server.options import Options
from tests.geometry import QWEN3_8B

GIB = 2**30
BACKBONE: Mapping[str, Any] = {
    **QWEN3_8B,
    "dtype": "bfloat16",
}


def make_target(**changes: Any) -> TargetConfig:
    """Qwen3-8B."""
    return TargetConfig(**{**BACKBONE, "architecture": "Qwen3ForCausalLM", **changes})


def make_draft(**changes: Any) -> BlockDraft:
    """The DFlash draft of Qwen3-8B."""
    fields = {
        **BACKBONE,
        "num_hidden_layers": 5,
        "family": "dflash",
        "schema_id": "nested",
        "block_size": 16,
        "mask_token_id": 151669,
        "target_layer_ids": (1, 9, 17, 25, 33),
        "num_target_layers": 36,
        "layout": AnchorLayout.DROP,
    }
    return BlockDraft(**{**fields, **changes})


TARGET_BF16 = KvGeometry(36, 8, 128, 2)
DRAFT_BF16 = KvGeometry(5, 8, 128, 2)
ALONE = KvLayout(TARGET_BF16)
PAIR = KvLayout(TARGET_BF16, DRAFT_BF16, 16, 16)


def make_request(layout: KvLayout, budget_bytes: int, length: int = 1, **more: Any) -> PlanRequest:
    """A request on one rank whose whole total is the pool's budget."""
    fields = {"utilization": Fraction(1), "ranks": (Rank(budget_bytes),), **more}
    return PlanRequest(layout=layout, max_model_len=length, **fields)


def make_plan(layout: KvLayout, budget_bytes: int, length: int = 1, **more: Any) -> Plan:
    found = plan(make_request(layout, budget_bytes, length, **more))
    assert isinstance(found, Plan)
    return found


def make_shortfall(layout: KvLayout, budget_bytes: int, length: int, **more: Any) -> Shortfall:
    found = plan(make_request(layout, budget_bytes, length, **more))
    assert isinstance(found, Shortfall)
    return found


def make_facts(**changes: Any) -> DeviceFacts:
    """A free 80 GiB device whose figures are CUDA's own."""
    fields: dict[str, Any] = {
        "kind": DeviceKind.CUDA,
        "name": "GPU",
        "reason": "asked for",
        "total_bytes": 80 * GIB,
        "free_bytes": 80 * GIB,
        "exact": True,
    }
    return DeviceFacts(**{**fields, **changes})


def make_need(draft: BlockDraft | None = None, **changes: Any) -> Need:
    """Qwen3-8B, with its real weight sizes."""
    target = make_target(**changes)
    weights = WeightBytes(16_381_470_720, 2_097_252_864 if draft else 0)
    return need_of(target, draft, weights, "bfloat16", 16)


def make_options(**changes: Any) -> Options:
    return Options(**{"target": "Qwen3-8B", **changes})


def make_charges(**changes: int) -> Charges:
    return Charges(**{"runtime_bytes": 10, "margin_bytes": 5, **changes})


def errors(outcome: Outcome) -> list[str]:
    return [f.rule for f in outcome.findings if f.severity is Severity.ERROR]


def rules(outcome: Outcome) -> list[str]:
    return [f.rule for f in outcome.findings]


def only(outcome: Outcome) -> Finding:
    (finding,) = outcome.findings
    return finding


def status(outcome: Outcome, rule: str) -> CheckStatus:
    return {check.rule: check.status for check in outcome.checks}[rule]


class FixedSource:
    """A memory source whose integers are given. `free` and `used` are read off in order.

    The last value of a sequence repeats. `not_held`: bytes of what is taken that the kernel
    does not see.
    """

    noise_bytes = 0
    not_held = 0

    def __init__(
        self, facts: DeviceFacts, free: list[int], used: list[int], growth: tuple[int, ...] = (0,)
    ) -> None:
        self.facts = facts
        self.torch_device = torch.device("cpu")
        self._free, self._used, self._growth = list(free), list(used), list(growth)

    @property
    def total_bytes(self) -> int:
        return self.facts.total_bytes or 0

    def free_bytes(self) -> int:
        return _next(self._free)

    def used_by_us_bytes(self) -> int:
        return _next(self._used)

    @contextmanager
    def taken(self) -> Iterator[Taken]:
        found, start_bytes = Taken(), self.used_by_us_bytes()
        yield found
        found.allocated_bytes = self.used_by_us_bytes() - start_bytes
        found.held_bytes = found.allocated_bytes - self.not_held

    def settle(self) -> None:
        pass

    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        found = Peak()
        yield found
        found.views["fixed"] = _next(self._growth)


def _next(values: list[int]) -> int:
    return values.pop(0) if len(values) > 1 else values[0]
