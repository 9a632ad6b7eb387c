"""MTP: a multi-token prediction module, by itself or inside its target's checkpoint.

Source: vllm-project/vllm vllm/config/speculative.py, Tencent/AngelSpec
angelspec/config/mtp_hy3_draft_config.json.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_block_drafter, by_architecture, name_only, stated

_MODULES = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")


def claim(file: DraftFile) -> Claim:
    """An architecture *MTP* or *NextN*, or a model_type of such a module.

    Undecided for a causal model that holds a module: such a file can be a draft in two ways.
    """
    block = as_block_drafter(file)
    if block:
        return Claim(reason=block)
    kind, names = file.top("model_type"), by_architecture(file, "MTP", "NextN")
    is_kind = isinstance(kind.value, str) and kind.value.endswith(("mtp", "gemma4_assistant"))
    if names or is_kind:
        return Claim((*names, *((kind,) if is_kind else ())))
    modules = stated(*map(file.top, _MODULES), plain=0)
    dspark = any(key.startswith("dspark_") for key in file.raw)  # as in DeepSeek-V4
    if modules and not dspark and (file.architecture or "").endswith("ForCausalLM"):
        reason = "undecided between mtp and draft-model, the checkpoint holds an MTP module"
        return Claim((file.top("architectures"), *modules), reason)
    return Claim(reason="no architecture *MTP*, model_type *mtp")


FAMILY = name_only("mtp", "flat", claim)
