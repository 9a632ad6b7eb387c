"""JetSpec: a DFlash file whose head attends causally inside the block.

Source: sgl-project/sglang issue 29524, vllm-project/speculators pull request 747.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import claim_any, name_only, stated


def claim(file: DraftFile) -> Claim:
    """A causal_head inside dflash_config."""
    return claim_any(stated(file.inner("causal_head"), plain=False), "nested causal_head")


FAMILY = name_only("jetspec", "nested", claim)
