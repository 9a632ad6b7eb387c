"""What only the names of the tensors can tell: EAGLE, a complete model, or an MTP module.

`names` are those of the safetensors header. Sources: SafeAILab/EAGLE eagle/model/cnets1.py,
vllm-project/vllm vllm/model_executor/models/mimo_mtp.py and deepseek_mtp.py.
"""

from collections.abc import Collection

from server.config.families.model import DraftFile

MODULES = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_MODULE_NAMES = ("mtp.", "model.mtp.", "model.mtp_layers.", "mtp_layers.")
# Where a complete model has its decoder, by itself or beside a vision tower.
_DECODERS = ("model.", "model.language_model.", "language_model.model.")
_DIGITS = 6  # no model has more layers
_FUSION = ("enorm.", "hnorm.", "eh_proj.")


def is_eagle(names: Collection[str]) -> bool:
    """fc.weight stands beside no layer and no embedding of a causal model, nor EAGLE-3's norm.

    Some exports put `model.` before every name but that of the head.
    """
    if all(name.startswith(("model.", "lm_head.")) for name in names):
        names = {name.removeprefix("model.") for name in names}
    others = ("model.layers.", "model.embed_tokens", "midlayer.", "layers.0.hidden_norm")
    return "fc.weight" in names and not any(name.startswith(others) for name in names)


def is_complete(names: Collection[str]) -> bool:
    """A causal model from its embedding on, without the fusion that a drafter has."""
    fused = not {"fc.weight", "model.fc.weight"}.isdisjoint(names)
    return not fused and any(
        f"{decoder}embed_tokens.weight" in names
        and any(name.startswith(f"{decoder}layers.0.") for name in names)
        for decoder in _DECODERS
    )


def has_module(file: DraftFile, names: Collection[str]) -> bool:
    """An MTP module, under a name of its own or as a layer after the model's last."""
    depth = file.raw.get("num_hidden_layers")
    last = depth if type(depth) is int else 0
    return any(name.startswith(_MODULE_NAMES) or _is_fusion(name, last) for name in names)


def _is_fusion(name: str, depth: int) -> bool:
    number, _, rest = name.removeprefix("model.layers.").partition(".")
    is_layer = name.startswith("model.layers.") and number.isdecimal() and len(number) < _DIGITS
    return is_layer and int(number) >= depth and rest.startswith(_FUSION)
