"""EAGLE-1 and EAGLE-2: one decoder layer behind fc.weight [H, 2H].

SafeAILab's own files are those of a one-layer llama, and no config tells the two apart. Source:
SafeAILab/EAGLE eagle/train, eagle/model/cnets1.py; vllm-project/vllm
vllm/model_executor/models/registry.py.
"""

from server.config.families.by_header import is_complete, is_eagle
from server.config.families.eagle_fields import DecoderDraft, pick_flat
from server.config.families.eagle_tensors import eagle_tensors
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_causal_lm, equals
from server.config.layers import SIZES
from server.config.tensors import Tensors

_UNDECIDED = "undecided between eagle and draft-model"


def claim(file: DraftFile) -> Claim:
    """An architecture that says so, or model_type eagle; a one-layer causal model by its tensors.

    Undecided where there is no header, or one that shows neither.
    """
    name, own = file.architecture or "", equals(file.top("model_type"), "eagle")
    says_so = name == "EAGLEModel" or name.endswith("ForCausalLMEagle")
    if says_so or (name.startswith("Eagle") and name.endswith(("ForCausalLM", "MTPModel"))):
        own = (file.top("architectures"), *own)
    if own:
        return Claim(own)
    plain = as_causal_lm(file, "1", lambda layers: layers == 1)
    return plain if plain.reason else _by_header(file, plain)


def _by_header(file: DraftFile, plain: Claim) -> Claim:
    names = file.tensors
    if names is None:
        return plain._replace(reason=f"{_UNDECIDED}, which only the safetensors header can tell")
    if is_eagle(names):
        return plain
    if is_complete(names):
        return Claim(reason="the tensors are those of a complete model, without fc.weight")
    return plain._replace(
        reason=f"{_UNDECIDED}, the safetensors header shows neither fc.weight alone nor a "
        "complete model"
    )


FAMILY = unserved(
    "eagle",
    "flat",
    claim,
    Form(pick_flat, DecoderDraft, ("hidden_size", "vocab_size")),
    Tensors((*SIZES, "decoder", "attention_bias"), eagle_tensors, marks=("fc.bias",)),
)
