"""The tensors of both checkpoints, and the verdict of the gate. Headers only, no torch.

`Admission` is the one ticket to the load, and only `admit` makes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from server.config.checks import Reading
from server.config.records import Backbone, BlockDraft, TargetConfig
from server.config.rules import RULES, finding
from server.findings import Location, Outcome, outcome_by_rule, outcome_of
from server.log import Log
from server.pairing import PairRead
from server.weights.index import read_inventory
from server.weights.judge import LoadPlan, judge_tensors
from server.weights.layout import ExpectedTensor, draft_layout, target_layout

_SEAL = object()
_TENSOR_RULES = tuple(rule for rule in RULES if rule.startswith("SD4"))


@dataclass(frozen=True, slots=True)
class Headers:
    """What each checkpoint's headers promise to hold; a plan is None without weights."""

    pair: PairRead
    target: LoadPlan | None
    draft: LoadPlan | None


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
    """Compare both checkpoints' headers with the tensors their configs call for."""
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
