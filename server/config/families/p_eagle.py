"""P-EAGLE: EAGLE-3 that drafts all tokens at once, with a mask token and more than one layer.

Source: sgl-project/SpecForge configs/qwen3-8b-peagle.json.
"""

from server.config.families.eagle3 import shape
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, name_only, stated

_MASK = ("mask_token_id", "pard_token", "ptd_token_id")


def claim(file: DraftFile) -> Claim:
    """An architecture PEagle*, or EAGLE-3's shape with more than one layer and a mask token."""
    names = by_architecture(file, "PEagle")
    if names:
        return Claim((*names, *stated(file.top("num_hidden_layers"))))
    places, masks = shape(file), stated(*map(file.top, _MASK))
    layers = file.top("num_hidden_layers")
    if places and masks and isinstance(layers.value, int) and layers.value > 1:
        return Claim((*places, layers, *masks))
    return Claim(reason="no architecture PEagle*, nor EAGLE-3's keys with layers and a mask token")


FAMILY = name_only("p-eagle", "flat", claim)
