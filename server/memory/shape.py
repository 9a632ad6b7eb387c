"""The largest step that is served: what the operator set, and defaults by device with reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from server.config.records import BlockDraft
from server.memory.facts import DeviceFacts, DeviceKind
from server.options import Options, fraction_text

_DEFAULT = "default"
_DEFAULTS: Mapping[DeviceKind, tuple[int, int]] = {
    DeviceKind.CUDA: (8192, 64),
    DeviceKind.CPU: (256, 4),
}


@dataclass(frozen=True, slots=True)
class RunShape:
    """Limits of one step, in tokens and requests. `sources` maps a setting to where it is from.

    `draft_tokens` is K, how many tokens are drafted per request and step; 0 without a drafter.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    draft_tokens: int
    sources: Mapping[str, str]

    @property
    def verify_tokens(self) -> int:
        """Rows of one request in a verify step: the anchor and the drafts."""
        return self.draft_tokens + 1


def resolve_shape(options: Options, facts: DeviceFacts, draft: BlockDraft | None) -> RunShape:
    """The operator's limits, or the device's defaults: a host computes far fewer rows a second."""
    tokens, seqs = _DEFAULTS[facts.kind]
    by_device = f"{_DEFAULT} for {facts.kind}"
    drafted, draft_source = _draft_tokens(options, draft)
    return RunShape(
        max_num_batched_tokens=options.max_num_batched_tokens or tokens,
        max_num_seqs=options.max_num_seqs or seqs,
        draft_tokens=drafted,
        sources={
            "max_num_batched_tokens": (
                options.source("max_num_batched_tokens")
                if options.max_num_batched_tokens
                else f"{by_device}: one prefill step"
            ),
            "max_num_seqs": (
                options.source("max_num_seqs")
                if options.max_num_seqs
                else f"{by_device}: requests that decode together"
            ),
            "num_speculative_tokens": draft_source,
        },
    )


def resolve_utilization(options: Options, facts: DeviceFacts) -> tuple[Fraction, str]:
    """The fraction of the total that may be used, and where it comes from.

    A host is shared: where the operator set nothing, no more than is free now, in hundredths.
    """
    asked, source = options.gpu_memory_utilization, options.source("gpu_memory_utilization")
    if not source.startswith(_DEFAULT) or facts.kind is not DeviceKind.CPU:
        return asked, source
    if not facts.total_bytes or facts.free_bytes is None:
        return asked, source
    room = (facts.free_bytes + facts.own_bytes) * 100 // facts.total_bytes
    default = Options(target="").gpu_memory_utilization
    found = min(default, Fraction(max(1, room), 100))
    return found, f"{_DEFAULT} for {facts.kind}: what is free, at most {fraction_text(default)}"


def _draft_tokens(options: Options, draft: BlockDraft | None) -> tuple[int, str]:
    if draft is None:
        return 0, "no draft"
    if options.num_speculative_tokens is None:
        return draft.draft_tokens, "draft config: block_size and layout"
    return options.num_speculative_tokens, options.source("num_speculative_tokens")
