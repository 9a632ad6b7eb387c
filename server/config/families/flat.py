"""What the two families in the flat (DeepSpec) schema share: every key at the top level.

Source: deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py. DFlash and DSpark have
the same architecture string there; markov_rank alone tells them apart. Layout anchor-first: the
anchor's own position predicts the first draft. num_anchors is the marker of that layout.
"""

from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.families.block import (
    CONFIDENCE_FIELDS,
    MARKOV_NEEDS,
    block_tensors,
    confidence_tensors,
    markov_tensors,
    shipped_tables,
)
from server.config.families.common import (
    Subject,
    given_layout,
    given_names,
    judge_draft,
    other_architecture,
    pick_draft,
    read_draft_record,
)
from server.config.families.keys import ignored_top
from server.config.families.marks import MARKS, foreign_key
from server.config.families.model import Claim, DraftFile, fault
from server.config.fields import Picked, said
from server.config.records import AnchorLayout, BlockDraft
from server.config.rules import finding
from server.config.tensors import ExpectedTensor, Tensors
from server.config.values import same, shorten
from server.findings import Finding

_SERVED = "Qwen3DSparkModel"
_ADD_ANCHORS = (
    "add num_anchors from the training configuration if its drafts begin at the anchor; a draft "
    "without it is served in the nested schema only"
)
_ONE_LAYOUT = "set sample_from_anchor to true if the draft was trained so, as num_anchors says"
_ANGELSPEC = ("dspark", "dflash")  # model types of another flat schema
_EMBEDDING = -1  # target_layer_ids may name the embedding's output in this schema


def claim_flat(file: DraftFile) -> Claim:
    """An architecture *DSparkModel or a Markov head, no dflash_config, no other family's key.

    Under another architecture (public files say DSparkDraftModel) the file is told so by SD303.
    """
    names, config = file.top("architectures"), file.top("dflash_config")
    markov = has_markov_head(file) and file.top("model_type").value not in _ANGELSPEC
    if not markov and not (file.architecture or "").endswith("DSparkModel"):
        return Claim(reason=f"architectures is {shorten(names.value)}, *DSparkModel is needed")
    if config.value is not None:
        return Claim(reason=f"dflash_config is {shorten(config.value)}, none is needed")
    foreign = foreign_key(file, MARKS)
    if foreign:
        return Claim(reason=foreign)
    return Claim((names, file.top("markov_rank"), file.top("num_anchors")))


def has_markov_head(file: DraftFile) -> bool:
    """True when markov_rank states anything but 0; a malformed rank is DSpark's to refuse."""
    rank = file.top("markov_rank").value
    return rank is not None and not same(rank, 0)


def read_flat(
    file: DraftFile, family: str, extra: dict[str, Picked], *checks: Check[Subject]
) -> Reading[BlockDraft]:
    """Read every field and judge the file by itself; `extra` are the family's own fields."""
    picked = pick_draft(file) | given_names(family, "flat") | extra
    picked |= {name: said(file.top(name)) for name in CONFIDENCE_FIELDS}
    picked["layout"] = given_layout(AnchorLayout.FIRST, *_layout_faults(file))
    subject = Subject(file, read_draft_record(file, picked), lowest_layer_id=_EMBEDDING)
    return judge_draft(subject, *_CHECKS, *checks)


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield from block_tensors(draft)
    yield from markov_tensors(draft)
    if draft.markov_rank or draft.enable_confidence_head:
        yield from confidence_tensors(draft)
    yield from shipped_tables(draft)


TENSORS = Tensors(MARKOV_NEEDS, _tensors)


def _layout_faults(file: DraftFile) -> Iterator[Finding]:
    anchors = file.top("num_anchors")
    if not anchors.present:
        message = "draft num_anchors is missing, so the anchor layout is not shown"
        where = file.at(anchors), file.at(file.top("architectures"))
        yield finding("SD304", message, *where, fix=_ADD_ANCHORS)
    elif not isinstance(anchors.value, int) or isinstance(anchors.value, bool):
        yield fault("SD107", file, anchors, "an integer is needed")
    elif anchors.value <= 0:
        yield fault("SD108", file, anchors, "at least 1 is needed")
    first = file.top("sample_from_anchor")
    if first.value is not None and first.value is not True:
        message = f"draft sample_from_anchor is {shorten(first.value)} beside num_anchors"
        yield finding("SD304", message, file.at(first), file.at(anchors), fix=_ONE_LAYOUT)


def _architecture(subject: Subject) -> Iterator[Finding]:
    # Others (Gemma4DSparkModel, Qwen3OmniDSparkModel) differ in their decoder layers.
    return other_architecture(subject.file, (_SERVED,))


def _confidence(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    width = file.top("confidence_head_with_markov")
    if file.raw.get("enable_confidence_head") is True and width.value is None:
        message = f"draft {width.name} is {width.shown}, enable_confidence_head is true"
        enabled = file.top("enable_confidence_head")
        yield finding("SD105", message, file.at(width), file.at(enabled))


_CHECKS: tuple[Check[Subject], ...] = (
    Check("SD303", (), _architecture),
    Check("SD105", (), _confidence),
    Check("SD111", (), lambda subject: ignored_top(subject.file)),
)
