"""MTP: a multi-token prediction module, by itself or inside its target's checkpoint.

Source: vllm-project/vllm vllm/config/speculative.py, Tencent/AngelSpec
angelspec/config/mtp_hy3_draft_config.json and angelspec/models/draft/mtp.py.
"""

from server.config.backbone import pick_dtype
from server.config.families.by_header import MODULES, has_module, is_complete
from server.config.families.eagle_fields import pick_sizes
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.mtp_tensors import MTP_NEEDS, MtpDraft, mtp_tensors
from server.config.families.named import as_block_drafter, by_architecture, stated
from server.config.fields import Picked, given, pick, said
from server.config.tensors import Tensors

_MODELS = ("ForCausalLM", "ForConditionalGeneration")
_UNDECIDED = "undecided between mtp and draft-model"
_ASKED = ("target_hidden_size", "max_position_embeddings", "attention_bias", "qk_norm")
_EXPERTS = (
    *("num_experts", "moe_intermediate_size", "num_shared_experts"),
    "moe_router_enable_expert_bias",
)


def claim(file: DraftFile) -> Claim:
    """An architecture *MTP* or *NextN*, or a model_type of such a module.

    A causal model that holds a module can be a draft in two ways: its tensors tell, unless they
    are of both.
    """
    block = as_block_drafter(file)
    if block:
        return Claim(reason=block)
    kind, names = file.top("model_type"), by_architecture(file, "MTP", "NextN")
    if (file.architecture or "").startswith("Eagle"):
        names = ()  # EAGLE over a model that has a module, as EagleDeepSeekMTPModel
    is_kind = isinstance(kind.value, str) and kind.value.endswith(("mtp", "gemma4_assistant"))
    if names or is_kind:
        return Claim((*names, *((kind,) if is_kind else ())))
    levels = ((), ("text_config",))  # the decoder of a model of several parts
    modules = stated(*(pick(file.raw, *level, key) for level in levels for key in MODULES), plain=0)
    if modules and (file.architecture or "").endswith(_MODELS):
        return _by_header(file, (file.top("architectures"), *modules))
    return Claim(reason="no architecture *MTP*, model_type *mtp")


def _by_header(file: DraftFile, places: tuple[Picked, ...]) -> Claim:
    names = file.tensors
    if names is None:
        return Claim(places, f"{_UNDECIDED}, the checkpoint holds an MTP module by its config")
    module, model = has_module(file, names), is_complete(names)
    if module and not model:
        return Claim(places)
    if model and not module:
        return Claim(reason="the tensors are a complete model's, and none is of an MTP module")
    held = "a complete model and an MTP module" if model else "neither a model nor an MTP module"
    return Claim(places, f"{_UNDECIDED}, the safetensors header holds {held}")


def _pick(file: DraftFile) -> dict[str, Picked]:
    sizes, layers = pick_sizes(file.top), said(file.top("num_nextn_predict_layers"))
    module = _module(file)
    picked = {
        **sizes,
        **{name: said(file.top(name)) for name in (*_ASKED, *_EXPERTS)},
        "dtype": pick_dtype(file.raw, file.source),
        "module": given(module)._replace(present=module is not None),
        "num_hidden_layers": layers if layers.present else given(1),
    }
    if (file.architecture or "").endswith("ForCausalLM"):
        # The file is the target's own: its layers are the target's.
        picked["num_target_layers"] = sizes["num_hidden_layers"]
    return picked


def _module(file: DraftFile) -> str | None:
    """How the module's tensors are written; None where that is not known here."""
    if file.top("model_type").value == "mtp":
        kind = file.raw.get("mlp_type", "moe")
        return f"angelspec-{kind}" if kind in ("moe", "dense") else None
    return "mimo" if "MiMo" in (file.architecture or "") else None


FAMILY = unserved(
    "mtp",
    "flat",
    claim,
    Form(_pick, MtpDraft),
    Tensors(MTP_NEEDS, mtp_tensors, marks=("mtp.", "mtp_layers.", "eh_proj.")),
)
