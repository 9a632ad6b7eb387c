"""DFly: DFlash with fused target layers and a correction of the hidden state.

Sources: Tencent/AngelSpec angelspec/config/dfly_qwen3_4b_draft_config.json,
angelspec/models/draft/dfly.py and tests/test_dfly.py (tensors, equal widths).
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
from server.config.families.block import BLOCK_NEEDS
from server.config.families.form import Form, unserved
from server.config.families.fusion import SAME_WIDTH, fusion_weights
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, equals, stated
from server.config.fields import Picked
from server.config.records import BlockDraft, Count
from server.config.tensors import ExpectedTensor, Tensors

_OWN = ("enable_hidden_correction", "hidden_correction_intermediate_size")


class DFlyDraft(BlockDraft):
    """A block draft with DFly's correction, of the draft's hidden size where no other is stated.

    Without `enable_hidden_correction` releases differ in whether there is one.
    """

    enable_hidden_correction: bool | None = None
    hidden_correction_intermediate_size: Count | None = None


def claim(file: DraftFile) -> Claim:
    """An architecture *DFly*, a model_arch dfly, or a hidden correction."""
    correction = stated(file.top("enable_hidden_correction"), plain=False)
    if file.architecture == "DSparkDraftModel" and file.top("model_arch").value != "dfly":
        correction = ()  # AngelSpec's DSpark may have the correction too
    named = equals(file.top("model_arch"), "dfly")
    places = (*by_architecture(file, "DFly"), *named, *correction)
    return claim_any(places, "architecture *DFly*, model_arch dfly, enable_hidden_correction")


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_angelspec(file, *_OWN)


def _tensors(draft: DFlyDraft) -> Iterator[ExpectedTensor]:
    yield context_projection(draft)
    yield from angelspec_tensors(draft)
    yield fusion_weights(draft)
    if draft.enable_hidden_correction is not False:
        width = "hidden_correction_intermediate_size"
        width = width if draft.hidden_correction_intermediate_size else "hidden_size"
        yield from correction_tensors(draft, width, bool(draft.enable_hidden_correction))


FAMILY = unserved(
    "dfly",
    "angelspec",
    claim,
    Form(_pick, DFlyDraft, REQUIRED, (*ANGELSPEC_CHECKS, SAME_WIDTH)),
    Tensors((*BLOCK_NEEDS, *_OWN), _tensors, marks=("hidden_correction.",)),
)
