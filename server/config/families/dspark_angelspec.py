"""DSpark as AngelSpec writes it: flat, but without block size and anchor layout.

num_target_layers counts the captured layers there, not the target's. Source: Tencent/AngelSpec
angelspec/config/dspark_draft_config.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, name_only, stated
from server.config.values import shorten

_ARCHITECTURE = "DSparkDraftModel"


def claim(file: DraftFile) -> Claim:
    """DSparkDraftModel with model_type dspark and no dflash_config."""
    own = equals(file.top("model_type"), "dspark")
    if file.architecture != _ARCHITECTURE or not own:
        names, kind = (shorten(file.raw.get(key)) for key in ("architectures", "model_type"))
        return Claim(reason=f"architectures is {names} with model_type {kind}")
    if file.raw.get("dflash_config") is not None:
        return Claim(reason="there is a dflash_config")
    return Claim((file.top("architectures"), *own, *stated(file.top("markov_rank"))))


FAMILY = name_only("dspark", "angelspec", claim)
