"""DSpark with its Markov head at the top level, while mask token and layer ids stay nested.

Layout anchor-drop, unlike the flat schema. Source: RadixArk/Kimi-K3-DSpark config.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import name_only, stated


def claim(file: DraftFile) -> Claim:
    """A top-level markov_rank other than 0 beside nested mask_token_id or target_layer_ids."""
    rank = stated(file.top("markov_rank"), plain=0)
    facts = stated(file.inner("mask_token_id"), file.inner("target_layer_ids"))
    if rank and facts:
        return Claim((*rank, *facts))
    return Claim(reason="no top-level markov_rank beside nested mask_token_id, target_layer_ids")


FAMILY = name_only("dspark", "hybrid", claim)
