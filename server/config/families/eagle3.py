"""EAGLE-3: one layer over several hidden states of the target, often with a reduced vocabulary.

SafeAILab's own files have an ordinary llama architecture, DeepSpec's no draft_vocab_size. Source:
SafeAILab/EAGLE eagle/traineagle3/config.json, sgl-project/SpecForge configs/qwen3-8b-eagle3.json.
"""

from server.config.families.eagle_fields import EagleDraft, pick_eagle3
from server.config.families.eagle_tensors import EAGLE3_ALIASES, EAGLE3_NEEDS, eagle3_tensors
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_block_drafter, by_architecture, stated
from server.config.fields import Picked
from server.config.tensors import Tensors

_KEYS = (
    *("draft_vocab_size", "eagle_config", "ttt_length", "num_aux_hidden_states"),
    "eagle_aux_hidden_state_layer_ids",
)
# Trainers write draft_vocab_size into files of these as well.
_OTHERS = ("MTP", "Medusa")


def shape(file: DraftFile) -> tuple[Picked, ...]:
    """The places that show EAGLE-3, or P-EAGLE, which has its keys too."""
    names = by_architecture(file, "Eagle3", "EAGLE3")
    if not names and (as_block_drafter(file) or by_architecture(file, *_OTHERS)):
        return ()
    return (*names, *stated(*map(file.top, _KEYS)))


def claim(file: DraftFile) -> Claim:
    """An architecture *Eagle3*, or a key of EAGLE-3 in a file that does not look like DFlash."""
    places = shape(file)
    reason = as_block_drafter(file) or "no architecture *Eagle3*, draft_vocab_size, eagle_config"
    return Claim(places) if places else Claim(reason=reason)


_MARKS = ("midlayer.hidden_norm", "layers.0.hidden_norm")
# Positions and rotary base are a head's own: public heads with 2048 positions serve longer targets.
FAMILY = unserved(
    "eagle3",
    "flat",
    claim,
    Form(pick_eagle3, EagleDraft, ("hidden_size", "vocab_size")),
    Tensors(
        EAGLE3_NEEDS,
        eagle3_tensors,
        EAGLE3_ALIASES,
        marks=_MARKS,
    ),
)
