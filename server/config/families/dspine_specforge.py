"""DSpine as SpecForge writes it: dspine_config at the top level, no bridge in dflash_config.

Another layout of the same name: an adjacent injection after each layer, with token codes that are
shipped. Its mask token and layer ids stay inside dflash_config, so that a reader that skips
dspine_config takes the file for plain DFlash. Layout anchor-drop: a block is an anchor and its
proposals. Its weights stay closed, as those of every DSpine draft do. Source: sgl-project/SpecForge
specforge/modeling/draft/dspine.py, configs/qwen3-8b-dspine.json.
"""

from collections.abc import Iterator, Mapping

from server.config.checks import Check
from server.config.families.block import BLOCK_REQUIRED
from server.config.families.common import Subject, given_layout, pick_draft
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile, fault
from server.config.families.named import by_architecture, claim_any, stated
from server.config.fields import Picked, given, pick
from server.config.records import AnchorLayout, BlockDraft, Count
from server.findings import Finding, JsonValue

_CONFIG = "dspine_config"
_SIZES = ("transfer_rank", "message_size", "top_k")


class InjectedDraft(BlockDraft):
    """A block draft with DSpine's injection. Sizes in elements, with the trainer's defaults."""

    transfer_rank: Count = 1024
    message_size: Count = 512
    top_k: Count = 16


def claim(file: DraftFile) -> Claim:
    """An architecture *DSpine*, or a dspine_config at either level."""
    named = by_architecture(file, "DSpine")
    places = (*stated(*file.both(_CONFIG)), *named)
    return claim_any(places, f"architecture *DSpine*, {_CONFIG}")


def _pick(file: DraftFile) -> dict[str, Picked]:
    held: JsonValue = file.raw.get(_CONFIG)
    path = (_CONFIG,) if isinstance(held, Mapping) else ("dflash_config", _CONFIG)
    sizes = {name: pick(file.raw, *path, name) for name in _SIZES}
    marks = {"layout": given_layout(AnchorLayout.DROP), "uses_dspine": given(True)}
    return pick_draft(file) | sizes | marks


def _limits(subject: Subject) -> Iterator[Finding]:
    draft = subject.reading.partial
    vocab = draft.vocab_size
    limits = {"transfer_rank": min(draft.hidden_size, vocab - 1), "top_k": vocab}
    for name, limit in limits.items():
        if (size := getattr(draft, name)) > limit:
            place = Picked(size, subject.reading.pointers[name])
            yield fault("SD108", subject.file, place, f"at most {limit} is needed")


_FORM = Form(
    _pick,
    InjectedDraft,
    required=BLOCK_REQUIRED,
    checks=(Check("SD108", ("hidden_size", "vocab_size", "transfer_rank", "top_k"), _limits),),
)
FAMILY = unserved("dspine", "hybrid", claim, _FORM)
