"""DSpark in SpecForge's nested schema: the Markov head's keys stand inside dflash_config.

Layout anchor-drop, also after SpecForge's normaliser has rewritten the architecture to that of
the flat schema. Source: sgl-project/SpecForge configs/qwen3-8b-dspark.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals, has_nested, name_only, stated


def claim(file: DraftFile) -> Claim:
    """Nested projector_type dspark or markov_rank, or DSparkDraftModel with a dflash_config."""
    places = equals(file.inner("projector_type"), "dspark")
    places += stated(file.inner("markov_rank"), plain=0)
    if file.architecture == "DSparkDraftModel" and has_nested(file):
        places = (file.top("architectures"), *(places or (file.top("dflash_config"),)))
    return Claim(places) if places else Claim(reason="no nested projector_type dspark, markov_rank")


FAMILY = name_only("dspark", "nested", claim)
