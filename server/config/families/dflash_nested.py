"""DFlash in the nested schema: mask token and captured layers stand inside dflash_config.

Source: z-lab/dflash dflash/model.py; written by sgl-project/SpecForge, Tencent/AngelSlim and
NVIDIA/Model-Optimizer as well. Layout anchor-drop: position 0 repeats the verified token.
"""

from collections.abc import Iterator, Mapping

from server.config.backbone import differs
from server.config.checks import Check, Reading
from server.config.families.block import BLOCK_NEEDS, block_tensors
from server.config.families.common import (
    Subject,
    given_layout,
    given_names,
    judge_draft,
    other_architecture,
    pick_draft,
    read_draft_record,
)
from server.config.families.keys import ignored_top, unknown_nested
from server.config.families.marks import ALL_MARKS, foreign_key
from server.config.families.model import Claim, DraftFile, Family
from server.config.records import AnchorLayout, BlockDraft
from server.config.rules import finding
from server.config.tensors import Tensors
from server.config.values import shorten
from server.findings import Finding

_ZLAB, _ANGELSLIM = "DFlashDraftModel", "QwenDFlashDraftModel"
ARCHITECTURES = (_ZLAB, _ANGELSLIM)
_ANCHOR_DROP = (
    "set sample_from_anchor to false if the draft was trained so; nested drafts that begin at the "
    "anchor are not served"
)
_NESTED_FACTS = ("mask_token_id", "target_layer_ids")


def claim(file: DraftFile) -> Claim:
    """An architecture *DFlash*, a dflash_config object, and no key of another family."""
    names, config = file.top("architectures"), file.top("dflash_config")
    if "DFlash" not in (file.architecture or ""):
        return Claim(reason=f"architectures is {shorten(names.value)}, *DFlash* is needed")
    if not isinstance(config.value, Mapping):
        return Claim(reason=f"dflash_config is {config.shown}, an object is needed")
    foreign = foreign_key(file, ALL_MARKS)
    if foreign:
        return Claim(reason=foreign)
    stated = map(file.inner, _NESTED_FACTS)
    return Claim((names, *(place for place in stated if place.present)))


def read(file: DraftFile) -> Reading[BlockDraft]:
    """Read every field and judge the file by itself; see `Reading`."""
    picked = pick_draft(file) | given_names(FAMILY.id, FAMILY.schema_id)
    picked["layout"] = given_layout(AnchorLayout.DROP, *_layout_faults(file))
    return judge_draft(Subject(file, read_draft_record(file, picked)), *_KEYS)


def _layout_faults(file: DraftFile) -> Iterator[Finding]:
    # AngelSlim writes its training option num_anchors at the top level; its drafts are
    # anchor-drop all the same (Tencent/AngelSlim configs/qwen3_dflash.json).
    places = [file.inner("num_anchors")]
    if file.architecture != _ANGELSLIM:
        places.append(file.top("num_anchors"))
    places_first = [file.inner("sample_from_anchor"), file.top("sample_from_anchor")]
    clashing = [place for place in places if place.value is not None]
    clashing += [place for place in places_first if differs(place.value, False)]
    if not any(file.inner(key).present for key in _NESTED_FACTS):
        # The flat schema has both at the top level, and the other layout.
        clashing += [p for p in map(file.top, _NESTED_FACTS) if p.present][:1]
    for place in clashing:
        message = (
            f"draft {place.name} is {shorten(place.value)} beside dflash_config, "
            f"with architectures {shorten(file.raw.get('architectures'))}"
        )
        where = file.at(place), file.at(file.top("architectures"))
        fix = _ANCHOR_DROP if place in places_first else None
        yield finding("SD304", message, *where, fix=fix)


def _architecture(subject: Subject) -> Iterator[Finding]:
    # Others (DFlashLagunaForCausalLM) differ in their decoder layers or tensor names.
    return other_architecture(subject.file, ARCHITECTURES)


_KEYS: tuple[Check[Subject], ...] = (
    Check("SD303", (), _architecture),
    Check("SD109", (), lambda subject: unknown_nested(subject.file)),
    Check("SD111", (), lambda subject: ignored_top(subject.file)),
)

_TENSORS = Tensors(BLOCK_NEEDS, block_tensors)
FAMILY = Family("dflash", "nested", served=True, claim=claim, read=read, tensors=_TENSORS)
