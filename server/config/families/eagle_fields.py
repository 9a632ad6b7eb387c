"""What the files of EAGLE and its relatives state: a decoder's sizes, captured layers, a mask.

Sources: SafeAILab/EAGLE eagle/model/cnets.py, sgl-project/SpecForge
specforge/modeling/draft/llama3_eagle.py, deepseek-ai/DeepSpec deepspec/modeling/eagle3/common.py,
vllm-project/vllm vllm/model_executor/models/llama_eagle3.py.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from server.config.backbone import pick_dtype
from server.config.families.model import DraftFile
from server.config.families.named import stated
from server.config.fields import Picked, given, pick, pick_one, said
from server.config.layers import SIZES, DecoderKind
from server.config.records import BlockDraft
from server.findings import JsonValue

AUX_IDS = "eagle_aux_hidden_state_layer_ids"
MASK_NAMES = ("mask_token_id", "pard_token", "ptd_token_id")
_DEFAULT_CAPTURED = 3
_ASKED = ("draft_vocab_size", "target_hidden_size", "target_model_type", "num_target_layers")
_FLAGS = ("norm_before_fc", "fc_norm", "attention_bias")


class DecoderDraft(BlockDraft):
    """A draft of ordinary decoder layers: qwen3's norm queries and keys, qwen2's have biases."""

    decoder: DecoderKind
    attention_bias: bool = False


class EagleDraft(DecoderDraft):
    """An EAGLE-3 draft: `captured_count` hidden states of the target side by side enter its fc."""

    captured_count: Annotated[int, Field(gt=0, le=4096)]
    use_aux_hidden_state: bool = True
    norm_before_fc: bool = False
    fc_norm: bool = False


def pick_sizes(at: Callable[[str], Picked]) -> dict[str, Picked]:
    """The sizes of a decoder; `at` finds a key. Two follow from others where they are absent."""
    picked = {name: said(at(name)) for name in SIZES}
    heads = picked["num_attention_heads"]
    if heads.present and not picked["num_key_value_heads"].present:
        picked["num_key_value_heads"] = given(heads.value)
    return picked | {"head_dim": pick_head_dim(picked)}


def pick_head_dim(picked: Mapping[str, Picked]) -> Picked:
    """head_dim; where it is not stated it is hidden_size over the heads."""
    hidden, heads = picked["hidden_size"].value, picked["num_attention_heads"].value
    if picked["head_dim"].present or not (isinstance(hidden, int) and isinstance(heads, int)):
        return picked["head_dim"]
    even = heads > 0 and hidden % heads == 0
    return given(hidden // heads) if even else picked["head_dim"]


def pick_flat(file: DraftFile) -> dict[str, Picked]:
    """The sizes, the dtype and the kind of decoder of a file with all keys at the top level."""
    kind = decoder_kind(file.architecture or "", file.top("model_type").value)
    return {
        **pick_sizes(file.top),
        "dtype": pick_dtype(file.raw, file.source),
        "decoder": given(kind)._replace(present=kind is not None),
        "attention_bias": said(file.top("attention_bias")),
    }


def decoder_kind(architecture: str, model_type: JsonValue) -> DecoderKind | None:
    """The kind of decoder layer, or None for one whose tensors are not known here.

    EAGLE's code for Llama is used under model types of other families: the architecture decides.
    """
    if "Llama" in architecture or "LLaMA" in architecture:
        return "llama"
    if "Moe" in architecture:
        return None
    if "Qwen3" in architecture:
        return "qwen3" if model_type in (None, "qwen3", "llama") else None
    kinds: dict[JsonValue, DecoderKind] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
    return kinds.get(model_type) if isinstance(model_type, str) else None


def pick_eagle3(file: DraftFile) -> dict[str, Picked]:
    """What EAGLE-3 and P-EAGLE state at the top level or in eagle_config."""
    picked = pick_flat(file) | {name: said(file.top(name)) for name in (*_ASKED, *_FLAGS)}
    picked["use_aux_hidden_state"] = said(pick(file.raw, "eagle_config", "use_aux_hidden_state"))
    picked |= pick_captured(file)
    return picked | {"captured_count": pick_count(file, picked["target_layer_ids"])}


def pick_mask(file: DraftFile) -> Picked:
    """The token that stands for one that is not drafted yet, under any of its three names."""
    places = tuple(map(file.top, MASK_NAMES))
    return pick_one("mask_token_id", file.source, *(stated(*places) or (said(places[0]),)))


def pick_captured(file: DraftFile) -> dict[str, Picked]:
    """The captured layers. In eagle_config, as in DeepSpec, ids name outputs.

    SGLang, which reads eagle_config, adds one to come to a layer's input; speculators and vLLM
    state such inputs at the top level.
    """
    inputs = said(file.top(AUX_IDS))
    outputs = stated(pick(file.raw, "eagle_config", AUX_IDS), file.top("target_layer_ids"))
    if not outputs:
        return {"target_layer_ids": inputs, "layer_id_shift": given(1)}
    beside = stated(inputs) if inputs.value != _next(outputs[0].value) else ()
    ids = pick_one("target_layer_ids", file.source, *outputs, *beside)
    return {"target_layer_ids": ids, "layer_id_shift": given(0)}


def pick_count(file: DraftFile, ids: Picked) -> Picked:
    """How many hidden states are captured: as many as there are ids, or as stated, or three."""
    places = stated(file.top("num_aux_hidden_states"))
    if isinstance(ids.value, list) and ids.value:
        places = (Picked(len(ids.value), ids.pointer), *places)
    elif ids.present:
        return ids._replace(present=False, findings=())
    if not places:
        return given(_DEFAULT_CAPTURED)
    return pick_one("number of captured layers", file.source, *places)


def _next(ids: JsonValue) -> JsonValue:
    """The layers whose inputs are the outputs `ids`."""
    return [i + 1 for i in ids if type(i) is int] if isinstance(ids, list) else None
