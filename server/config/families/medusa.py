"""Medusa: heads on the target's last hidden state. The original files name no architecture.

Their weights are a .pt file; tensors are known for the safetensors form that vLLM reads. Source:
FasterDecoding/Medusa medusa/model/medusa_model.py, vllm-project/vllm
vllm/model_executor/models/medusa.py.
"""

from server.config.families.form import Form, unserved
from server.config.families.medusa_heads import (
    MEDUSA_NEEDS,
    MedusaDraft,
    medusa_tensors,
    reduced,
)
from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_block_drafter, claim_any, equals
from server.config.fields import Picked, pick_one, said
from server.config.tensors import Tensors

_TOLD = 8
# A field, and the names under which it may stand.
_NAMES = {
    "num_heads": ("medusa_num_heads", "num_heads"),
    "num_hidden_layers": ("medusa_num_layers", "num_hidden_layers"),
    "hidden_size": ("medusa_hidden_size", "hidden_size"),
    "vocab_size": ("medusa_vocab_size", "vocab_size"),
}


def claim(file: DraftFile) -> Claim:
    """Any key medusa_*, or model_type medusa, in a file that does not look like DFlash."""
    block = as_block_drafter(file)
    if block:
        return Claim(reason=block)
    keys = [key for key in file.raw if key.startswith("medusa_")][:_TOLD]
    places = (*equals(file.top("model_type"), "medusa"), *map(file.top, keys))
    return claim_any(places, "medusa_ key, model_type medusa")


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = {
        name: pick_one(name, file.source, *(said(file.top(key)) for key in keys))
        for name, keys in _NAMES.items()
    }
    for name in ("medusa_fc_bias", "original_lm_head"):
        picked[name] = said(file.top(name))
    return picked | {"draft_vocab_size": reduced(file)}


_WRITTEN = (("medusa_heads.", ""),)
_MARKS = ("medusa_heads.", "lm_heads.")
FAMILY = unserved(
    "medusa",
    "flat",
    claim,
    Form(_pick, MedusaDraft),
    Tensors(MEDUSA_NEEDS, medusa_tensors, _WRITTEN, _MARKS),
)
