"""The speculators format: speculators_model_type names the algorithm, whatever architectures say.

The decoder's fields stand inside transformer_layer_config, as a difference to class defaults, and
layer ids are shifted by one: no reader of another schema may see such a file. Source:
vllm-project/speculators src/speculators/config.py and src/speculators/models.
"""

from functools import partial

from server.config.families.form import unserved
from server.config.families.model import UNKNOWN, Claim, DraftFile, Family
from server.config.families.named import stated
from server.config.families.speculators_forms import FORMS

_TYPE = "speculators_model_type"
_FAMILIES = {"peagle": "p-eagle"}  # every other algorithm has its family's name


def _claim(wanted: str, file: DraftFile) -> Claim:
    named = file.top(_TYPE)
    if named.value == wanted:
        return Claim((named,))
    return Claim(reason=f"{_TYPE} is not {wanted}" if named.present else f"no {_TYPE}")


def _claim_other(file: DraftFile) -> Claim:
    """The format with an algorithm that is not known here, or with none."""
    named = file.top(_TYPE)
    parts = stated(file.top("speculators_config"), file.top("transformer_layer_config"))
    if named.value is None and len(parts) < 2:
        return Claim(reason=f"no {_TYPE}")
    return Claim((named, *parts), f"{_TYPE} names no algorithm that is known here")


FAMILIES = (
    *(
        unserved(_FAMILIES.get(name, name), "speculators", partial(_claim, name), form, tensors)
        for name, (form, tensors) in FORMS.items()
    ),
    Family(UNKNOWN, "speculators", served=False, claim=_claim_other, read=None),
)
