"""DFlash as AngelSpec writes it: flat, without block size, and with tensors of other names.

num_target_layers counts the captured layers there, not the target's. Source: Tencent/AngelSpec
angelspec/config/dflash_draft_config.json.
"""

from server.config.families.marks import MARKOV_MARKS, MARKS, foreign_marks
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, name_only
from server.config.values import shorten


def claim(file: DraftFile) -> Claim:
    """DFlashDraftModel with model_type dflash, no dflash_config, and no key of another family."""
    own = equals(file.top("model_type"), "dflash")
    if file.architecture != "DFlashDraftModel" or not own:
        names, kind = (shorten(file.raw.get(key)) for key in ("architectures", "model_type"))
        return Claim(reason=f"architectures is {names} with model_type {kind}")
    if file.raw.get("dflash_config") is not None:
        return Claim(reason="there is a dflash_config")
    marks = foreign_marks(file, (*MARKS, *MARKOV_MARKS))
    if marks:
        return Claim(reason=f"{marks[0].pointer} is {shorten(marks[0].value)}")
    return Claim((file.top("architectures"), *own))


FAMILY = name_only("dflash", "angelspec", claim)
