"""DFlash in the Open Spec Config: a decoder's fields at the top level, the rest in an object.

Newer releases of speculators save their DFlash drafts so. speculative_config states how many
tokens a block proposes, and whether ids count layers from 0 or from 1. Sources:
vllm-project/speculators src/speculators/open_spec_config.py and
src/speculators/models/dflash/config.py (what is written, what a missing key is).
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from server.config.backbone import pick_backbone
from server.config.families.common import given_layout
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals
from server.config.families.speculators_forms import FORMS
from server.config.fields import Picked, given, pick, said
from server.config.records import AnchorLayout, BlockDraft, Count

_VERSION, _CONFIG = "open_spec_config_version", "speculative_config"
_NAMES = {
    "target_layer_ids": "target_layer_ids",
    "layer_id_shift": "target_layer_start_idx",
    "mask_token_id": "mask_token_id",
    "draft_vocab_size": "draft_vocab_size",
    "speculative_tokens": "speculative_tokens",
    "sample_from_anchor": "sample_from_anchor",
}


class OpenSpecDraft(BlockDraft):
    """A block draft that states how many tokens a block proposes, in place of a block size."""

    layer_id_shift: Annotated[int, Field(ge=0, le=1)]
    speculative_tokens: Count
    sample_from_anchor: bool


def claim(file: DraftFile) -> Claim:
    """An open_spec_config_version, or DflashDraftModel with a speculative_config object."""
    version, config = file.top(_VERSION), file.top(_CONFIG)
    named = file.architecture == "DflashDraftModel" and isinstance(config.value, Mapping)
    if version.value is None and not named:
        return Claim(reason=f"no {_VERSION}")
    method = _inner(file, "method")
    evidence = (file.top("architectures"), version, method)
    known = equals(method, "dflash")
    return Claim(evidence, "" if known else f"{method.name} names no algorithm that is known here")


def _inner(file: DraftFile, key: str) -> Picked:
    return said(pick(file.raw, _CONFIG, key))


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = {name: said(place) for name, place in pick_backbone(file.raw, file.source).items()}
    picked |= {name: _inner(file, key) for name, key in _NAMES.items()}
    picked["target_hidden_size"] = said(file.top("target_hidden_size"))
    tokens, first = picked["speculative_tokens"].value, picked["sample_from_anchor"].value
    if isinstance(first, bool):
        picked["layout"] = given_layout(AnchorLayout.FIRST if first else AnchorLayout.DROP)
        if type(tokens) is int:
            picked["block_size"] = given(tokens + (not first))
    return picked


_REQUIRED = tuple(name for name in _NAMES if name != "draft_vocab_size")
FAMILY = unserved(
    "dflash", "open-spec", claim, Form(_pick, OpenSpecDraft, _REQUIRED), FORMS["dflash"][1]
)
