"""DSpark in SpecForge's nested schema: the Markov head's keys stand inside dflash_config.

Layout anchor-drop, also after SpecForge's normaliser has rewritten the architecture to that of
the flat schema and has copied the keys to the top level. Sources: sgl-project/SpecForge
configs/qwen3-8b-dspark.json, specforge/modeling/draft/dspark.py and dflash.py (attention modes),
scripts/gates/normalize_dflash_export.py (copies that disagree).
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.anchors import shown_layout
from server.config.families.block import MARKOV_FIELDS
from server.config.families.common import Subject, pick_draft
from server.config.families.form import Form, unserved
from server.config.families.markov import (
    MARKOV_CHECKS,
    REQUIRED,
    TENSORS,
    DSparkDraft,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, has_nested, stated
from server.config.families.relations import told
from server.config.fields import Picked, pick, pick_one
from server.config.records import AnchorLayout
from server.findings import Finding

_GROUPED, _FULL = "gqa", "mha"
_OWN = ("attention_mode", "confidence_head_alpha")


class NestedDSparkDraft(DSparkDraft):
    """DSpark as SpecForge trains it. `confidence_head_alpha` weighs a loss, in training only."""

    attention_mode: str | None = None
    confidence_head_alpha: float | None = None


def claim(file: DraftFile) -> Claim:
    """Nested projector_type dspark or markov_rank, or DSparkDraftModel with a dflash_config."""
    places = equals(file.inner("projector_type"), "dspark")
    places += stated(file.inner("markov_rank"), plain=0)
    if file.architecture == "DSparkDraftModel" and has_nested(file):
        places = (file.top("architectures"), *(places or (file.top("dflash_config"),)))
    return Claim(places) if places else Claim(reason="no nested projector_type dspark, markov_rank")


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = pick_draft(file)
    for name in MARKOV_FIELDS:
        # Some templates have a block of their own for them (configs/inkling-dspark.json).
        places = (*file.both(name)[::-1], pick(file.raw, "dspark_config", name))
        picked[name] = pick_one(name, file.source, *places)
    picked |= {name: file.inner(name) for name in _OWN}
    if _latent(file):
        # Latent attention has dimensions of its own, in place of these two.
        del picked["num_key_value_heads"], picked["head_dim"]
    if file.inner("projector_type").value == "dspark":
        picked |= shown_layout(file, AnchorLayout.DROP)
    return picked


def _latent(file: DraftFile) -> bool:
    """True when some layer has neither grouped nor full heads (mla, kda)."""
    mode, modes = file.inner("attention_mode").value, file.inner("attention_modes").value
    one = isinstance(mode, str) and mode.lower() not in (_GROUPED, _FULL)
    return one or modes is not None


def _head_counts(subject: Subject) -> Iterator[Finding]:
    draft, mode = subject.reading.partial, subject.file.inner("attention_mode").value
    heads, shared = draft.num_attention_heads, draft.num_key_value_heads
    name = mode.lower() if isinstance(mode, str) else ""
    if (name == _GROUPED and shared >= heads) or (name == _FULL and shared != heads):
        message = (
            f"draft attention_mode is {name}, num_key_value_heads is {shared} and "
            f"num_attention_heads is {heads}"
        )
        fields = ("attention_mode", "num_key_value_heads", "num_attention_heads")
        yield told(subject, "SD119", message, *fields)


_HEADS = ("attention_mode", "num_attention_heads", "num_key_value_heads")
_CHECKS = (*MARKOV_CHECKS, Check("SD119", _HEADS, _head_counts))

FAMILY = unserved(
    "dspark", "nested", claim, Form(_pick, NestedDSparkDraft, REQUIRED, _CHECKS), TENSORS
)
