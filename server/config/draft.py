"""The draft's configuration: which family it shows, what it says, and whether it is served.

`read_draft` never refuses: it reads and judges the file by itself. `ensure_servable` is the one
call that refuses a family, and it needs nothing but the draft.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from server.config.checks import Reading
from server.config.families import known_families
from server.config.families.dspine_places import misplaced
from server.config.families.keys import weight
from server.config.families.marks import ALL_MARKS, EAGLE_MARKS, foreign_marks
from server.config.families.model import UNKNOWN, DraftFile, Family
from server.config.families.named import as_block_drafter, stated
from server.config.fields import Picked
from server.config.records import BlockDraft
from server.config.rules import finding
from server.config.strict_json import read_object
from server.config.tensors import Tensors
from server.config.values import Source, same, shorten
from server.findings import Finding, JsonValue, Location, Outcome, outcome_of

DSPINE = "dspine"
# Experts, latent or linear attention, sinks, the target's keys and values, a table of its own.
_PARTS = (
    *("n_routed_experts", "num_experts", "kv_lora_rank", "linear_attn_config", "attention_modes"),
    *("draft_layer_types", "conditioning_source", "attention_sink_bias", "has_embed_tokens"),
)
_NOT_THERE = (None, False, 0)
_TOLD = 8
_IN_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft's config.json as far as it could be read.

    `family` is "unknown" when no family claims the file, when the file may be of several
    (`undecided` says which), or when there is no JSON object to judge (then `candidates` is empty
    and `outcome` says why). `served` is what the registry says of the family in this schema.
    `reading` is None for an unknown family, `tensors` for one whose tensors are not stated here.
    `evidence` are the deciding places. `candidates` maps each family and schema that was asked to
    the reason why it did not claim the file, "" for the one that did.
    """

    family: str
    schema_id: str | None
    evidence: tuple[Location, ...]
    candidates: Mapping[str, str]
    reading: Reading[BlockDraft] | None
    outcome: Outcome
    served: bool = False
    undecided: str = ""
    tensors: Tensors | None = None


def read_draft(path: Path, strict: bool, tensors: frozenset[str] | None = None) -> Draft:
    """Read the draft's config.json at `path`. Never raises; all faults are in the outcome.

    `tensors` are the names in its safetensors headers, for a file that is undecided without.
    """
    raw, outcome = read_object(path, "draft")
    if raw is None:
        return Draft(UNKNOWN, None, (), {}, None, outcome)
    return judge_file(DraftFile(raw, Source("draft", str(path)), strict, tensors), outcome)


def judge_file(file: DraftFile, outcome: Outcome) -> Draft:
    """The family of a raw file, read and judged; `outcome` is what reading the JSON found."""
    candidates: dict[str, str] = {}
    outcome += outcome_of("SD115", _misplaced(file))
    for family in known_families():
        claim = family.claim(file)
        candidates[f"{family.id} ({family.schema_id})"] = claim.reason
        evidence = tuple(map(file.at, claim.evidence))
        if evidence and claim.reason:
            return Draft(UNKNOWN, None, evidence, candidates, None, outcome, undecided=claim.reason)
        if evidence:
            return _claimed(file, family, evidence, candidates, outcome)
    evidence = tuple(map(file.at, _telling(file)))
    return Draft(UNKNOWN, None, evidence, candidates, None, outcome)


def ensure_servable(draft: Draft, spec_method: str) -> Outcome:
    """Refuse a draft that this server does not serve. Tell these findings before the draft's own.

    SD306: a DSpine draft, valid or not. SD302: no family claims the file. SD312: a family that
    the registry knows and this server does not serve, or not in this schema. SD301: `spec_method`
    is neither "auto" nor the file's family.
    """
    if draft.family == DSPINE:
        refusal = outcome_of("SD306", [_dspine(draft)])
        return refusal + outcome_of("SD301", _contradiction(draft, spec_method))
    unknown = [_unknown(draft)] if draft.family == UNKNOWN and draft.candidates else []
    unserved = [] if draft.served or draft.family == UNKNOWN else [_unserved(draft)]
    refusal = outcome_of("SD306", ()) + outcome_of("SD302", unknown)
    refusal += outcome_of("SD312", unserved)
    return refusal + outcome_of("SD301", _contradiction(draft, spec_method))


def served_schemas() -> dict[str, list[str]]:
    """The schemas in which each served family is served."""
    schemas: dict[str, list[str]] = {}
    for family in known_families():
        if family.served:
            schemas.setdefault(family.id, []).append(family.schema_id)
    return schemas


def _claimed(
    file: DraftFile,
    family: Family,
    evidence: tuple[Location, ...],
    candidates: Mapping[str, str],
    outcome: Outcome,
) -> Draft:
    reading = family.read(file) if family.read else None
    names = file.at(file.top("architectures"))
    if not family.served and family.id != DSPINE and names not in evidence:
        evidence = (*evidence, names)
    return Draft(
        family=family.id,
        schema_id=family.schema_id,
        evidence=evidence,
        candidates=candidates,
        reading=reading,
        outcome=outcome + reading.outcome if reading else outcome,
        served=family.served,
        tensors=None if _has_other_parts(file, family) else family.tensors,
    )


def _has_other_parts(file: DraftFile, family: Family) -> bool:
    """True for a block drafter, not served, with parts that its family's tensors leave out."""
    known = family.served or family.schema_id == "speculators"  # which states its tables
    if known or not as_block_drafter(file):
        return False
    rows, vocab = file.top("draft_vocab_size").value, file.top("vocab_size").value
    markov = not family.id.startswith("dspark") and stated(file.top("markov_rank"), plain=0)
    other = (place for key in _PARTS for place in file.both(key))
    reduced = rows is not None and not same(rows, vocab)
    return bool(markov) or reduced or any(p.value not in _NOT_THERE for p in other)


def _telling(file: DraftFile) -> tuple[Picked, ...]:
    """What says most of a file that no family claims."""
    model_type = file.top("model_type")
    stated = (model_type,) if model_type.present and model_type.value != "qwen3" else ()
    marks = foreign_marks(file, (*ALL_MARKS, *EAGLE_MARKS))
    return (file.top("architectures"), *stated, *marks[:_TOLD])


def _misplaced(file: DraftFile) -> Iterator[Finding]:
    for place in misplaced(file):
        home = "the top level" if place.pointer.startswith("/dflash_config") else "dflash_config"
        message = f"draft {place.name} is ignored there, it is read in {home} only"
        yield finding("SD115", message, file.at(place), severity=weight(file))


def _dspine(draft: Draft) -> Finding:
    deciding = draft.evidence[0]
    message = (
        f"this build does not serve DSpine, and the draft is one: {_name(deciding)} "
        f"is {shorten(deciding.value)}"
    )
    return finding("SD306", message, *draft.evidence)


def _unknown(draft: Draft) -> Finding:
    shown = _quoted(draft)
    if draft.undecided:
        message = f"draft family is unknown, {draft.undecided}: {', '.join(shown)}"
        return finding("SD302", message, *draft.evidence)
    # A family whose architecture fits says best what is missing.
    near = [why for why in draft.candidates.values() if why.startswith("dflash_config")]
    message = f"draft family is not recognised: {', '.join(dict.fromkeys(shown + near))}"
    return finding("SD302", message, *draft.evidence)


def _unserved(draft: Draft) -> Finding:
    schemas = served_schemas()
    same_id = {draft.family: schemas[draft.family]} if draft.family in schemas else {}
    served = _told(same_id or schemas, " in")
    only = _told(same_id, " only in") if same_id else served
    one = f"{draft.family} in the {draft.schema_id} schema"
    message = f"the draft is {one} ({', '.join(_quoted(draft))}), this server serves {only}"
    fix = f"use a draft of {served}, or a server that implements {one}"
    return finding("SD312", message, *draft.evidence, fix=fix)


def _told(schemas: Mapping[str, list[str]], within: str) -> str:
    return " or ".join(
        f"{name}{within} the {' or '.join(of)} schema" for name, of in schemas.items()
    )


def _quoted(draft: Draft) -> list[str]:
    return [f"{_name(place)} is {_shown(place)}" for place in draft.evidence[:_IN_MESSAGE]]


def _contradiction(draft: Draft, spec_method: str) -> Iterator[Finding]:
    if spec_method == "auto" or draft.family in (spec_method, UNKNOWN):
        return
    message = f"--spec-method is {shorten(spec_method)}, the draft's family is {draft.family}"
    flag = Location(role="flag", flag="--spec-method", value=spec_method)
    yield finding("SD301", message, flag, *draft.evidence)


def _name(place: Location) -> str:
    return (place.pointer or "").removeprefix("/").replace("/", ".")


def _shown(place: Location) -> str:
    value: JsonValue = place.value
    return shorten(value) if place.has_value else "missing"
