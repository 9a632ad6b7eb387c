"""Judge a draft and a target together: every 2xx rule, and the target's half of SD336.

Rules are pure functions of a `Pair`; one that needs a field which could not be read is skipped
with the rule that said so. Grounds of each rule: `server/config/rules/pair.py`.
"""

from server.config.checks import Check, Reading, run_checks
from server.config.pair_context import CHECKS as _CONTEXT
from server.config.pair_context import model_limit
from server.config.pair_model import Asked, Pair
from server.config.pair_shape import CHECKS as _SHAPE
from server.config.records import BlockDraft, TargetConfig
from server.findings import Outcome, outcome_of, skipped

__all__ = ["Asked", "Pair", "judge_length", "judge_pair", "served_length"]

_CHECKS: tuple[Check[Pair], ...] = tuple(sorted(_SHAPE + _CONTEXT, key=lambda check: check.rule))


def judge_pair(pair: Pair) -> Outcome:
    """Run all pair rules. Rules that do not apply to this pair are skipped with the reason."""
    unresolved = pair.unresolved()
    total = Outcome()
    for check in _CHECKS:
        reason = _not_applicable(check, pair)
        total += skipped(check.rule, reason) if reason else run_checks((check,), pair, unresolved)
    return total


def judge_length(target: Reading[TargetConfig], asked: Asked) -> Outcome:
    """SD506: the length that was asked for against the target's own, with or without a draft."""
    if asked.max_model_len is None:
        return skipped("SD506", "--max-model-len is not set")
    waits = target.unresolved.get("max_position_embeddings")
    if waits is not None:
        return skipped("SD506", f"waits on {waits}")
    return outcome_of("SD506", model_limit(target, asked))


def served_length(draft: BlockDraft | None, target: TargetConfig) -> int:
    """The longest request, in tokens, that the positions of both models allow.

    A draft needs its own positions for one block beyond the last token. Not positive when the
    draft has no more positions than a block; SD204 refuses that.
    """
    if draft is None:
        return target.max_position_embeddings
    return min(target.max_position_embeddings, draft.max_position_embeddings - draft.block_size)


def _not_applicable(check: Check[Pair], pair: Pair) -> str:
    """Why a rule says nothing about this pair, or an empty text when it applies."""
    draft, rule = pair.draft.partial, check.rule
    unstated = pair.unstated(check.needs)
    if unstated:
        return f"the draft's config.json states no {unstated}"
    if rule == "SD208" and pair.asked.num_speculative_tokens is None:
        return "--num-speculative-tokens is not set"
    if rule == "SD213" and draft.schema_id != "nested":
        return f"the draft's schema is {draft.schema_id}, not nested"
    if rule == "SD336" and not draft.uses_dspine:
        return "the draft is not DSpine"
    return ""
