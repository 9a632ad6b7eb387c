"""The algorithms of the speculators format: a record, rules and tensors for each.

Source: vllm-project/speculators src/speculators/models/*/core.py (what is saved, what is left out).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from server.config.families import dflash2, markov
from server.config.families.block import (
    BLOCK_NEEDS,
    MARKOV_NEEDS,
    block_tensors,
    confidence_tensors,
    markov_tensors,
)
from server.config.families.eagle_fields import EagleDraft
from server.config.families.eagle_tensors import (
    EAGLE3_ALIASES,
    EAGLE3_NEEDS,
    draft_tables,
    eagle3_tensors,
    p_eagle_tensors,
)
from server.config.families.form import Form
from server.config.families.hass import HASS_TENSORS, HassDraft
from server.config.families.medusa_heads import MEDUSA_NEEDS, MedusaDraft, medusa_tensors
from server.config.families.mtp_tensors import MTP_NEEDS, MtpDraft, mtp_tensors
from server.config.families.speculators_decoder import DECODER
from server.config.families.speculators_layout import PROPOSALS
from server.config.families.speculators_read import (
    block_fields,
    eagle3_fields,
    eagle_fields,
    medusa_fields,
    mtp_fields,
    p_eagle_fields,
)
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, Tensors
from server.findings import JsonValue

_CHECKS = (*DECODER, *PROPOSALS)
_DSPARK: Mapping[str, JsonValue] = {
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
_DFLASH2: Mapping[str, JsonValue] = {
    "conv_kernel_size": 2,
    "conv_group_size": 16,
    "selector_rank": 256,
    "selector_top_k": 16,
}


class OneMtpDraft(MtpDraft):
    """An MTP module in the speculators format, which has exactly one layer."""

    num_nextn_predict_layers: Annotated[int, Field(ge=1, le=1)]


def _with_tables(
    needs: tuple[str, ...], base: Callable[[Any], Iterable[ExpectedTensor]]
) -> Tensors:
    """The tensors of `base`, and those of the draft's own vocabulary."""

    def expected(draft: BlockDraft) -> Iterator[ExpectedTensor]:
        yield from base(draft)
        yield from draft_tables(draft)

    return Tensors((*needs, "draft_vocab_size"), expected)


def _dspark(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """The Markov head's second table has the draft's rows, its first the target's."""
    yield from block_tensors(draft)
    yield from markov_tensors(draft, rows="draft_vocab_size")
    yield from confidence_tensors(draft)


FORMS: Mapping[str, tuple[Form, Tensors | None]] = {
    "dflash": (
        Form(block_fields(8), checks=_CHECKS),
        _with_tables(BLOCK_NEEDS, block_tensors),
    ),
    "dspark": (
        Form(
            block_fields(8, _DSPARK), markov.DSparkDraft, checks=(*_CHECKS, *markov.MARKOV_CHECKS)
        ),
        _with_tables(MARKOV_NEEDS, _dspark),
    ),
    "dflash2": (
        Form(block_fields(8, _DFLASH2), dflash2.DFlash2Draft, checks=_CHECKS),
        _with_tables((*BLOCK_NEEDS, *_DFLASH2), dflash2.dflash2_tensors),
    ),
    "jetspec": (
        Form(block_fields(16), checks=_CHECKS),
        _with_tables(BLOCK_NEEDS, block_tensors),
    ),
    "eagle": (Form(eagle_fields, HassDraft, checks=_CHECKS), HASS_TENSORS),
    "eagle3": (
        Form(eagle3_fields, EagleDraft, checks=_CHECKS),
        Tensors(EAGLE3_NEEDS, eagle3_tensors, EAGLE3_ALIASES),
    ),
    "medusa": (
        Form(medusa_fields, MedusaDraft, checks=PROPOSALS),
        Tensors(MEDUSA_NEEDS, medusa_tensors),
    ),
    "mtp": (Form(mtp_fields, OneMtpDraft, checks=_CHECKS), Tensors(MTP_NEEDS, mtp_tensors)),
    "peagle": (
        Form(p_eagle_fields, EagleDraft, checks=_CHECKS),
        Tensors(EAGLE3_NEEDS, p_eagle_tensors, EAGLE3_ALIASES),
    ),
}
