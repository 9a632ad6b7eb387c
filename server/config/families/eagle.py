"""EAGLE-1 and EAGLE-2: one decoder layer behind fc.weight [H, 2H].

SafeAILab's own files are those of a one-layer llama, and no config tells the two apart. Source:
SafeAILab/EAGLE eagle/train, vllm-project/vllm vllm/model_executor/models/registry.py.
"""

from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_causal_lm, equals, name_only


def claim(file: DraftFile) -> Claim:
    """An architecture that says so, or model_type eagle; undecided for a one-layer causal model."""
    name, own = file.architecture or "", equals(file.top("model_type"), "eagle")
    says_so = name == "EAGLEModel" or name.endswith("ForCausalLMEagle")
    if says_so or (name.startswith("Eagle") and name.endswith("ForCausalLM")):
        own = (file.top("architectures"), *own)
    if own:
        return Claim(own)
    plain = as_causal_lm(file, "1", lambda layers: layers == 1)
    if plain.reason:
        return plain
    tell = "undecided between eagle and draft-model, which only the safetensors header can tell"
    return plain._replace(reason=tell)


FAMILY = name_only("eagle", "flat", claim)
