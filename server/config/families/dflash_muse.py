"""DFlash over Muse Glimmer: the one public DFlash draft without DFlash in its name.

Its tensors have names of their own for what enters the draft. Source: ggml-org/llama.cpp
conversion of MuseGlimmerAssistantModel; its config was not read, so that facts are looked for at
both levels.
"""

from server.config.families.block import BLOCK_NEEDS, block_tensors
from server.config.families.common import pick_draft
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any
from server.config.tensors import Tensors

_ALIASES = (("encoder.fc.", "fc."), ("encoder.output_norm_enc.", "hidden_norm."))


def claim(file: DraftFile) -> Claim:
    """The architecture MuseGlimmerAssistantModel."""
    return claim_any(by_architecture(file, "MuseGlimmerAssistant"), "architecture Muse*")


FAMILY = unserved(
    "dflash", "hybrid", claim, Form(pick_draft), Tensors(BLOCK_NEEDS, block_tensors, _ALIASES)
)
