"""JetSpec: a DFlash file whose head attends causally inside the block, and drafts a tree.

Its tensors are those of DFlash (91 for the 8 layers of JetSpec/jetspec-Qwen3.6-35B-A3B). No
published code fixes how many of a block's positions are drafts. Sources: sgl-project/sglang issue
29524, vllm-project/speculators pull request 747, NVIDIA-NeMo/Automodel pull request 2867.
"""

from server.config.families.block import BLOCK_NEEDS, BLOCK_REQUIRED, block_tensors
from server.config.families.common import pick_draft
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any, stated
from server.config.fields import Picked
from server.config.records import BlockDraft
from server.config.tensors import Tensors


class JetSpecDraft(BlockDraft):
    """A block draft with a causal head."""

    causal_head: bool = True


def claim(file: DraftFile) -> Claim:
    """An architecture *JetSpec*, or a causal_head inside dflash_config."""
    head = stated(file.inner("causal_head"), plain=False)
    places = (*by_architecture(file, "JetSpec"), *head)
    return claim_any(places, "architecture *JetSpec*, nested causal_head")


def _pick(file: DraftFile) -> dict[str, Picked]:
    return pick_draft(file) | {"causal_head": file.inner("causal_head")}


FAMILY = unserved(
    "jetspec",
    "nested",
    claim,
    Form(_pick, JetSpecDraft, BLOCK_REQUIRED),
    Tensors(BLOCK_NEEDS, block_tensors),
)
