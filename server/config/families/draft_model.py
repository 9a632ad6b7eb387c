"""A plain small model as the draft: a causal language model with none of the drafters' keys.

Source: vllm-project/vllm vllm/config/speculative.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_causal_lm, name_only


def claim(file: DraftFile) -> Claim:
    """An architecture *ForCausalLM with more than one layer."""
    return as_causal_lm(file, "more than 1", lambda layers: layers > 1)


FAMILY = name_only("draft-model", "flat", claim)
