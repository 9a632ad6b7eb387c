"""DSpark inside its target's checkpoint, as in DeepSeek-V4: the keys begin with dspark_.

The file is the target's own. Layout anchor-first: the block of noise tokens has as many drafts as
dspark_block_size. The tensors (mtp.*) lie among the target's, and are not stated here. Sources:
deepseek-ai/DeepSeek-V4-Flash config.json, vllm-project/vllm vllm/config/speculative.py.
"""

from server.config.families.anchors import shown_layout
from server.config.families.form import Form, unserved
from server.config.families.markov import DSparkDraft
from server.config.families.model import Claim, DraftFile
from server.config.families.named import claim_any, has_nested, stated
from server.config.fields import Picked, said
from server.config.records import AnchorLayout

_KEYS = {
    "block_size": "dspark_block_size",
    "mask_token_id": "dspark_noise_token_id",
    "target_layer_ids": "dspark_target_layer_ids",
    "markov_rank": "dspark_markov_rank",
    "markov_head_type": "dspark_markov_head_type",
    "hidden_size": "hidden_size",
    "vocab_size": "vocab_size",
    "num_target_layers": "num_hidden_layers",
    "num_hidden_layers": "num_nextn_predict_layers",
}
_DECISIVE = ("dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids")


def claim(file: DraftFile) -> Claim:
    """A dspark_block_size, dspark_noise_token_id or dspark_target_layer_ids, no dflash_config."""
    if has_nested(file):
        return Claim(reason="there is a dflash_config")
    return claim_any(stated(*map(file.top, _DECISIVE)), ", ".join(_DECISIVE))


def _pick(file: DraftFile) -> dict[str, Picked]:
    picked = {name: said(file.top(key)) for name, key in _KEYS.items()}
    return picked | shown_layout(file, AnchorLayout.FIRST)


FAMILY = unserved("dspark", "in-target", claim, Form(_pick, DSparkDraft))
