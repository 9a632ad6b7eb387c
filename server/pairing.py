"""The target's config, and the pair that it makes with the draft.

After a refused draft this only adds findings. What judges a target is imported once there is a
target to judge: an operator whose draft is refused waits for nothing else.
"""

from typing import TYPE_CHECKING, NamedTuple

from server.config.locate import Checkpoint
from server.findings import outcome_of, skipped
from server.gate import SAMPLE, Servable, find_checkpoint
from server.log import Log
from server.report import TargetFacts

if TYPE_CHECKING:
    from server.config.target import Target


class PairRead(NamedTuple):
    """Draft and target configs, judged together as far as both could be read."""

    servable: Servable
    checkpoint: Checkpoint | None
    target: "Target | None"


def read_target_config(servable: Servable, log: Log) -> PairRead:
    """Read the target's config and judge the pair. After a refusal this only adds findings."""
    options = servable.found.options
    checkpoint, target = None, None
    if servable.refused and options.target.startswith(SAMPLE):
        log.tell(skipped("SD112", "the draft is refused; no sample target is written"))
    else:
        checkpoint, outcome = find_checkpoint("target", options.target, options)
        log.tell(outcome)
    if checkpoint is not None:
        from server.config.target import read_target

        target = read_target(checkpoint.config_path, options.strict)
        log.tell(target.outcome)
    log.report.target = TargetFacts(
        asked=options.target,
        path=str(checkpoint.config_path) if checkpoint else None,
        architecture=target.architecture if target else None,
        how=checkpoint.how if checkpoint else None,
    )
    _judge_pair(servable, target, log)
    return PairRead(servable, checkpoint, target)


def _judge_pair(servable: Servable, target: "Target | None", log: Log) -> None:
    draft, options = servable.found.draft, servable.found.options
    if target is None or target.reading is None:
        return
    from server.config.pair import Asked, Pair, judge_length, judge_pair

    asked = Asked(
        dtype=options.dtype,
        max_model_len=options.max_model_len,
        num_speculative_tokens=options.num_speculative_tokens,
        sources=options.sources,
        fit_length=options.auto_max_model_len,
    )
    log.tell(judge_length(target.reading, asked))
    if draft is not None and draft.reading is not None:
        log.tell(judge_pair(Pair(draft.reading, target.reading, asked)))
    _judge_ranks(servable, target, log)


def _judge_ranks(servable: Servable, target: "Target", log: Log) -> None:
    ranks, draft = servable.found.options.tensor_parallel_size, servable.found.draft
    if ranks == 1:
        log.tell(skipped("SD505", "there is one rank"))
        return
    from server.config.shard import judge_ranks

    for reading in (draft.reading if draft else None, target.reading):
        if reading is not None and reading.record is not None:
            log.tell(outcome_of("SD505", judge_ranks(reading.role, reading.record, ranks)))
