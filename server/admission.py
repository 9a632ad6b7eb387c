"""The tensors of both checkpoints, and the verdict of the gate. Headers only, no torch.

`Admission` is the one ticket to the load, and only `admit` makes one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from server.config.checks import Reading
from server.config.locate import Checkpoint
from server.config.records import Backbone, BlockDraft, TargetConfig
from server.config.rules import RULES, finding
from server.config.tensors import ExpectedTensor
from server.findings import Location, Outcome, outcome_by_rule, outcome_of
from server.gate import NO_WEIGHTS, Servable
from server.log import Log
from server.pairing import PairRead
from server.weights.index import survey
from server.weights.judge import JUDGED_RULES, judge_tensors
from server.weights.layout import target_layout
from server.weights.load_plan import LoadPlan

_SEAL = object()
_TENSOR_RULES = tuple(rule for rule in RULES if rule.startswith("SD4"))


@dataclass(frozen=True, slots=True)
class Headers:
    """What each checkpoint's headers promise to hold; a plan is None without weights."""

    pair: PairRead
    target: LoadPlan | None
    draft: LoadPlan | None


class _Side(NamedTuple):
    """One checkpoint, what its config says, and the tensors that this implies.

    `layout` is worked out only where there is a header to compare with it. `refused`: a folder
    without weights is no further fault.
    """

    checkpoint: Checkpoint | None
    reading: Reading[Backbone]
    layout: Callable[[], Iterable[ExpectedTensor]]
    aliases: tuple[tuple[str, str], ...] = ()
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """A pair that this server serves: resolved configs and exact load plans."""

    target: TargetConfig
    target_plan: LoadPlan
    draft: BlockDraft | None
    draft_plan: LoadPlan | None
    seal: object = field(repr=False)

    def __post_init__(self) -> None:
        """Raises TypeError for an admission that the gate did not make."""
        if self.seal is not _SEAL:
            raise TypeError("only server.admission.admit makes an Admission")


def read_tensor_headers(pair: PairRead, log: Log) -> Headers:
    """Compare both checkpoints' headers with the tensors their configs call for.

    Of a refused draft its own headers are read, so that all of its faults are told at once; the
    target's are not.
    """
    target, refused = pair.target, pair.servable.refused
    target_plan = None
    if target and target.reading and target.reading.record and not refused:
        layout = partial(target_layout, target.reading.record)
        target_plan = _plan(_Side(pair.checkpoint, target.reading, layout), log)
    draft_plan = _draft_plan(pair.servable, log)
    if target_plan is not None and draft_plan is not None:
        log.tell(_stored_dtypes(target_plan, draft_plan, log))
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
    return Admission(record, headers.target, draft, headers.draft, _SEAL)


def require_weights(headers: Headers, log: Log) -> None:
    """A boot (unlike --check) needs weight files; a bare config file has none."""
    pair = headers.pair
    for checkpoint in (pair.checkpoint, pair.servable.found.checkpoint):
        if checkpoint is not None and checkpoint.folder is None:
            message = f"{checkpoint.role} is a bare config file, a boot needs its weights"
            where = Location(checkpoint.role, file=str(checkpoint.config_path), has_value=False)
            fix = "give the checkpoint's folder, or add --check to judge the configs alone"
            log.tell(outcome_of("SD405", [finding("SD405", message, where, fix=fix)]))


def _stored_dtypes(target: LoadPlan, draft: LoadPlan, log: Log) -> Outcome:
    """SD207 by what the files hold; a config may state no dtype
    (https://github.com/vllm-project/vllm/issues/55250)."""
    asked = str(log.report.settings["dtype"].value)
    computed = target.dtype if asked == "auto" else asked
    told = any(known.rule == "SD207" for known in log.report.findings)
    if told or (draft.dtype, computed) != ("bfloat16", "float16"):
        return outcome_of("SD207", ())
    where = (
        Location("draft", file=str(draft.entries[0].file), value=draft.dtype),
        Location("target", file=str(target.entries[0].file), value=target.dtype),
        Location("setting", flag="--dtype", value=asked),
    )
    message = f"draft weights are {draft.dtype}, they would be computed in {computed}"
    fix = "--dtype bfloat16, or --dtype float32"
    return outcome_of("SD207", [finding("SD207", message, *where, fix=fix)])


def _skip_tensors(reason: str, log: Log) -> None:
    log.tell(outcome_by_rule(_TENSOR_RULES, skip=dict.fromkeys(_TENSOR_RULES, reason)))
    log.console.line(f"skipped: tensor rules {_TENSOR_RULES[0]} to {_TENSOR_RULES[-1]}: {reason}")


def _draft_plan(servable: Servable, log: Log) -> LoadPlan | None:
    found, draft = servable.found, servable.found.draft
    if draft is None or draft.reading is None or draft.tensors is None:
        return None
    unresolved = draft.reading.unresolved
    waits = sorted({unresolved[need] for need in draft.tensors.needs if need in unresolved})
    if waits:
        _skip_tensors(f"the draft's tensors wait on {', '.join(waits)}", log)
        return None
    layout = partial(draft.tensors.expected, draft.reading.partial)
    aliases = draft.tensors.aliases
    return _plan(_Side(found.checkpoint, draft.reading, layout, aliases, servable.refused), log)


def _plan(side: _Side, log: Log) -> LoadPlan | None:
    folder, reading = side.checkpoint.folder if side.checkpoint else None, side.reading
    if folder is None:
        _skip_tensors(f"{reading.role} is a bare config file, without headers to read", log)
        return None
    inventory, outcome = survey(reading.role, folder)
    if side.refused and NO_WEIGHTS.issuperset(f.rule for f in outcome.findings) and not inventory:
        _skip_tensors(f"{reading.role} folder holds no safetensors file", log)
        return None
    log.tell(outcome)
    if inventory is None:
        reason = f"{reading.role} has no header that could be read"
        log.tell(outcome_by_rule(JUDGED_RULES, skip=dict.fromkeys(JUDGED_RULES, reason)))
        return None
    plan, outcome = judge_tensors(inventory, tuple(side.layout()), reading, side.aliases)
    log.tell(outcome)
    return plan
