"""DSpark as Model-Optimizer exports it: nested, under the architecture of plain DFlash.

Layout anchor-first, unlike SpecForge's nested files; its tensors have no markov_head prefix.
Source: NVIDIA/Model-Optimizer modelopt/torch/export/plugins/hf_spec_export.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, name_only, stated


def claim(file: DraftFile) -> Claim:
    """Nested projector_type dspark with a key that only this exporter writes beside it."""
    head = equals(file.inner("projector_type"), "dspark")
    own = stated(file.inner("shift_label"), plain=False)
    own += stated(file.inner("use_confidence_head"))
    if head and own:
        return Claim((*head, *own))
    return Claim(reason="no projector_type dspark with shift_label or use_confidence_head")


FAMILY = name_only("dspark", "modelopt", claim)
