"""DSpark as AngelSpec writes it: flat, but without block size and anchor layout.

Sources: Tencent/AngelSpec angelspec/config/dspark_draft_config.json and
angelspec/models/draft/dspark.py; earlier releases built a hidden correction without saying so.
"""

from collections.abc import Iterator

from server.config.families.angelspec import (
    ANGELSPEC_CHECKS,
    REQUIRED,
    angelspec_tensors,
    claim_angelspec,
    context_projection,
    correction_tensors,
    pick_angelspec,
)
from server.config.families.block import (
    HEAD_MARKS,
    MARKOV_FIELDS,
    MARKOV_NEEDS,
    confidence_tensors,
    markov_tensors,
)
from server.config.families.form import Form, unserved
from server.config.families.markov import MARKOV_CHECKS, DSparkDraft
from server.config.families.model import Claim, DraftFile
from server.config.families.named import stated
from server.config.fields import Picked
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, Tensors


def claim(file: DraftFile) -> Claim:
    """DSparkDraftModel with model_type dspark and no dflash_config."""
    own = claim_angelspec(file, "DSparkDraftModel", "dspark")
    return Claim((*own.evidence, *stated(file.top("markov_rank")))) if own.evidence else own


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_angelspec(file, *MARKOV_FIELDS)


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield context_projection(draft)
    yield from angelspec_tensors(draft)
    yield from markov_tensors(draft)
    yield from confidence_tensors(draft)
    yield from correction_tensors(draft)


_CHECKS = (*ANGELSPEC_CHECKS, *MARKOV_CHECKS)

FAMILY = unserved(
    "dspark",
    "angelspec",
    claim,
    Form(_pick, DSparkDraft, (*REQUIRED, "markov_rank"), _CHECKS),
    Tensors(MARKOV_NEEDS, _tensors, marks=HEAD_MARKS),
)
