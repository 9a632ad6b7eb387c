"""Heads on the target's last hidden state, of neither Medusa nor EAGLE: named, and refused.

Their tensors are not stated here. Sources: vllm-project/vllm
vllm/transformers_utils/configs/mlp_speculator.py, snowflakedb/ArcticInference
arctic_inference/vllm (the same model_type), zankner/Hydra hydra/model/hydra_model.py,
NVIDIA/TensorRT-LLM tensorrt_llm/models/redrafter and NVIDIA/Model-Optimizer (redrafter_ keys).
"""

from functools import partial

from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_block_drafter, by_architecture, claim_any, equals
from server.config.fields import Picked, said

_TOLD = 8
# A family: a part of its architectures, the beginning of its keys, its model_type.
_MARKS = {
    "mlp-speculator": ("SpeculatorPreTrainedModel", "", "mlp_speculator"),
    "hydra": ("Hydra", "hydra_", "hydra"),
    "redrafter": ("ReDrafter", "redrafter_", "redrafter"),
}


def _claim(family: str, file: DraftFile) -> Claim:
    block = as_block_drafter(file)
    if block:
        return Claim(reason=block)
    word, beginning, kind = _MARKS[family]
    keys = [key for key in file.raw if beginning and key.startswith(beginning)][:_TOLD]
    named = (*by_architecture(file, word), *equals(file.top("model_type"), kind))
    wanted = f"{beginning} key, model_type {kind}" if beginning else f"model_type {kind}"
    return claim_any((*named, *map(file.top, keys)), f"architecture *{word}*, {wanted}")


def _pick(file: DraftFile) -> dict[str, Picked]:
    return {"vocab_size": said(file.top("vocab_size"))}


FAMILIES = tuple(unserved(name, "flat", partial(_claim, name), Form(_pick)) for name in _MARKS)
