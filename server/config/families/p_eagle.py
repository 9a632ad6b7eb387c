"""P-EAGLE: EAGLE-3 that drafts all tokens at once, with a mask token and more than one layer.

Source: sgl-project/SpecForge configs/qwen3-8b-peagle.json and specforge/modeling/draft/peagle.py.
"""

from server.config.families.eagle3 import shape
from server.config.families.eagle_fields import MASK_NAMES, EagleDraft, pick_eagle3, pick_mask
from server.config.families.eagle_tensors import EAGLE3_ALIASES, EAGLE3_NEEDS, p_eagle_tensors
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, stated
from server.config.fields import Picked
from server.config.tensors import Tensors


def claim(file: DraftFile) -> Claim:
    """An architecture PEagle*, or EAGLE-3's shape with more than one layer and a mask token."""
    names = by_architecture(file, "PEagle")
    if names:
        return Claim((*names, *stated(file.top("num_hidden_layers"))))
    places, masks = shape(file), stated(*map(file.top, MASK_NAMES))
    layers = file.top("num_hidden_layers")
    if places and masks and isinstance(layers.value, int) and layers.value > 1:
        return Claim((*places, layers, *masks))
    return Claim(reason="no architecture PEagle*, nor EAGLE-3's keys with layers and a mask token")


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_eagle3(file) | {"mask_token_id": pick_mask(file)}


FAMILY = unserved(
    "p-eagle",
    "flat",
    claim,
    Form(_pick, EagleDraft, ("hidden_size", "vocab_size")),
    Tensors(EAGLE3_NEEDS, p_eagle_tensors, EAGLE3_ALIASES, marks=("mask_hidden",)),
)
