"""The gate: draft, servable, pair, tensors, admission. Reads configs and headers, nothing heavy.

Each function takes what only the one before can make. `Admission` is the one ticket to the
load, and only `admit` makes one.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from server.cache import cache_folder
from server.config.checks import Reading
from server.config.draft import Draft, ensure_servable, read_draft
from server.config.locate import Checkpoint, Places, locate
from server.config.pair import Asked, Pair, judge_length, judge_pair, served_length
from server.config.records import Backbone, BlockDraft, TargetConfig
from server.config.rules import finding
from server.config.target import Target, read_target
from server.findings import Location, Outcome, outcome_of, skipped
from server.log import Log
from server.options import Options
from server.report import DraftFacts, TargetFacts
from server.weights.index import read_inventory
from server.weights.judge import LoadPlan, judge_tensors
from server.weights.layout import ExpectedTensor, draft_layout, target_layout
from server.weights.sample import SampleError, materialise

_SEAL = object()
_TENSOR_RULES = ("SD401", "SD402", "SD403", "SD404", "SD405")
_SAMPLE = "sample:"


@dataclass(frozen=True, slots=True)
class DraftFound:
    """The draft as far as it could be found and read; nothing of it is told yet.

    `draft` is None when none was asked for, or when it was not found (see `outcome`).
    """

    options: Options
    checkpoint: Checkpoint | None
    draft: Draft | None
    outcome: Outcome

    @property
    def missing(self) -> bool:
        """True when a draft was asked for and there is nothing to read."""
        return self.options.draft is not None and self.draft is None


@dataclass(frozen=True, slots=True)
class Servable:
    """The draft after `ensure_servable`. `refused`: from here on only configs are read."""

    found: DraftFound
    refused: bool


@dataclass(frozen=True, slots=True)
class PairRead:
    """Draft and target configs, judged together as far as both could be read."""

    servable: Servable
    checkpoint: Checkpoint | None
    target: Target | None


@dataclass(frozen=True, slots=True)
class Headers:
    """What each checkpoint's headers promise to hold; a plan is None without weights."""

    pair: PairRead
    target: LoadPlan | None
    draft: LoadPlan | None


@dataclass(frozen=True, slots=True)
class Admission:
    """A pair that this server serves: resolved configs and exact load plans.

    `limit_tokens` is the longest request that the positions of both models allow.
    """

    target: TargetConfig
    target_plan: LoadPlan
    draft: BlockDraft | None
    draft_plan: LoadPlan | None
    limit_tokens: int
    seal: object = field(repr=False)

    def __post_init__(self) -> None:
        """Raises TypeError for an admission that the gate did not make."""
        if self.seal is not _SEAL:
            raise TypeError("only server.gate.admit makes an Admission")


def read_draft_config(options: Options, log: Log) -> DraftFound:
    """Find and read the draft's config. Tells nothing: the refusal has to come first."""
    if options.draft is None:
        return DraftFound(options, None, None, Outcome())
    checkpoint, outcome = _locate("draft", options.draft, options)
    draft = read_draft(checkpoint.config_path, options.strict) if checkpoint else None
    log.report.draft = DraftFacts(
        asked=options.draft,
        path=str(checkpoint.config_path) if checkpoint else None,
        family=draft.family if draft else None,
        schema=draft.schema_id if draft else None,
        layout=_layout(draft),
        candidates=draft.candidates if draft else {},
    )
    return DraftFound(options, checkpoint, draft, outcome)


def refuse_unservable(found: DraftFound, log: Log) -> Servable:
    """Refuse a family that this server does not serve; the target has not been looked for."""
    log.tell(found.outcome)
    if found.draft is None:
        return Servable(found, refused=found.missing)
    refusal = ensure_servable(found.draft, found.options.spec_method)
    log.tell(refusal)
    log.tell(found.draft.outcome)
    return Servable(found, refused=refusal.refused or found.draft.reading is None)


def read_target_config(servable: Servable, log: Log) -> PairRead:
    """Read the target's config and judge the pair. After a refusal this only adds findings."""
    options = servable.found.options
    checkpoint, target = None, None
    if servable.refused and options.target.startswith(_SAMPLE):
        log.tell(skipped("SD112", "the draft is refused; no sample target is written"))
    else:
        checkpoint, outcome = _locate("target", options.target, options)
        log.tell(outcome)
    if checkpoint is not None:
        target = read_target(checkpoint.config_path, options.strict)
        log.tell(target.outcome)
    log.report.target = TargetFacts(
        asked=options.target,
        path=str(checkpoint.config_path) if checkpoint else None,
        architecture=target.architecture if target else None,
    )
    _judge_pair(servable, target, log)
    return PairRead(servable, checkpoint, target)


def read_tensor_headers(pair: PairRead, log: Log) -> Headers:
    """Compare both checkpoints' headers with the tensors their configs call for."""
    if pair.servable.refused:
        _skip_tensors("the draft is refused: no weight file is opened", log)
        return Headers(pair, None, None)
    found, target = pair.servable.found, pair.target
    target_plan = draft_plan = None
    if target is not None and target.reading is not None and target.reading.record is not None:
        layout = target_layout(target.reading.record)
        folder = pair.checkpoint.folder if pair.checkpoint else None
        target_plan = _plan(folder, layout, target.reading, log)
    reading = found.draft.reading if found.draft else None
    if reading is not None and reading.record is not None:
        layout = draft_layout(reading.record, reading.record.hidden_size)
        folder = found.checkpoint.folder if found.checkpoint else None
        draft_plan = _plan(folder, layout, reading, log)
    return Headers(pair, target_plan, draft_plan)


def admit(headers: Headers, log: Log) -> Admission | None:
    """The verdict: None when something was refused, or when bare configs hold no weights.

    Raises RuntimeError when a config is unresolved and no finding says why: fail closed.
    """
    if log.report.refused:
        return None
    target, found = headers.pair.target, headers.pair.servable.found
    record = target.reading.record if target and target.reading else None
    draft = found.draft.reading.record if found.draft and found.draft.reading else None
    if record is None or (found.options.draft is not None and draft is None):
        raise RuntimeError("a config is unresolved, and no finding says why")
    if headers.target is None or (draft is not None and headers.draft is None):
        return None
    limit = served_length(draft, record)
    return Admission(record, headers.target, draft, headers.draft, limit, _SEAL)


def require_weights(headers: Headers, log: Log) -> None:
    """A boot (unlike --check) needs weight files; a bare config file has none."""
    pair = headers.pair
    for checkpoint in (pair.checkpoint, pair.servable.found.checkpoint):
        if checkpoint is not None and checkpoint.folder is None:
            message = f"{checkpoint.role} is a bare config file, a boot needs its weights"
            where = Location(checkpoint.role, file=str(checkpoint.config_path), has_value=False)
            fix = "give the checkpoint's folder, or add --check to judge the configs alone"
            log.tell(outcome_of("SD405", [finding("SD405", message, where, fix=fix)]))


def _locate(role: str, asked: str, options: Options) -> tuple[Checkpoint | None, Outcome]:
    environ: Mapping[str, str] = os.environ
    if not asked.startswith(_SAMPLE):
        return locate(role, asked, Places(options.model_dir, options.revision, environ))
    try:
        folder = materialise(asked, cache_folder(environ))
    except SampleError as error:
        file = str(error.path) if error.path else None
        where = Location(role, file=file, flag=f"--{role}", value=asked)
        return None, outcome_of(error.rule, [finding(error.rule, error.message, where)])
    return Checkpoint(role, asked, folder / "config.json", folder, "embedded sample"), Outcome()


def _layout(draft: Draft | None) -> str | None:
    reading = draft.reading if draft else None
    layout = getattr(reading.partial, "layout", None) if reading else None
    return str(layout) if layout else None


def _judge_pair(servable: Servable, target: Target | None, log: Log) -> None:
    draft, options = servable.found.draft, servable.found.options
    if target is None or target.reading is None:
        return
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


def _skip_tensors(reason: str, log: Log) -> None:
    log.tell(sum((skipped(rule, reason) for rule in _TENSOR_RULES), Outcome()))
    log.console.line(f"skipped: tensor rules {_TENSOR_RULES[0]} to {_TENSOR_RULES[-1]}: {reason}")


def _plan(
    folder: Path | None, layout: Sequence[ExpectedTensor], reading: Reading[Backbone], log: Log
) -> LoadPlan | None:
    if folder is None:
        _skip_tensors(f"{reading.role} is a bare config file, without headers to read", log)
        return None
    inventory, outcome = read_inventory(reading.role, folder)
    log.tell(outcome)
    if inventory is None:
        return None
    plan, outcome = judge_tensors(inventory, layout, reading)
    log.tell(outcome)
    return plan
