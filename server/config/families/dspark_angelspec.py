"""DSpark as AngelSpec writes it: flat, but without block size and anchor layout.

Sources: Tencent/AngelSpec angelspec/config/dspark_draft_config.json and
angelspec/models/draft/dspark.py; earlier releases built a hidden correction without saying so.
"""

from collections.abc import Iterator

from server.config.families.angelspec import (
    ANGELSPEC_CHECKS,
    REQUIRED,
    angelspec_tensors,
    context_projection,
    correction_tensors,
    pick_angelspec,
)
from server.config.families.block import confidence_tensors, markov_tensors
from server.config.families.form import Form, unserved
from server.config.families.markov import (
    MARKOV_CHECKS,
    MARKOV_FIELDS,
    MARKOV_MARKS,
    MARKOV_NEEDS,
    DSparkDraft,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, stated
from server.config.fields import Picked
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, Tensors
from server.config.values import shorten

_ARCHITECTURE = "DSparkDraftModel"


def claim(file: DraftFile) -> Claim:
    """DSparkDraftModel with model_type dspark and no dflash_config."""
    own = equals(file.top("model_type"), "dspark")
    if file.architecture != _ARCHITECTURE or not own:
        names, kind = (shorten(file.raw.get(key)) for key in ("architectures", "model_type"))
        return Claim(reason=f"architectures is {names} with model_type {kind}")
    if file.raw.get("dflash_config") is not None:
        return Claim(reason="there is a dflash_config")
    return Claim((file.top("architectures"), *own, *stated(file.top("markov_rank"))))


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
    Tensors(MARKOV_NEEDS, _tensors, marks=MARKOV_MARKS),
)
