"""Small files of EAGLE's relatives, and their tensors written to a file and judged."""

from collections.abc import Mapping
from typing import Any

from server.config.draft import Draft, judge_file
from server.config.families.model import DraftFile
from server.config.pair import Asked, Pair, judge_pair
from server.config.records import TargetConfig
from server.config.values import Source
from server.findings import Outcome
from tests.config.drafts import Raw, make
from tests.config.pairs import TARGET, make_reading

LLAMA: Raw = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}
EAGLE3: Raw = {
    **LLAMA,
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 32000,
    "target_model_type": "qwen3",
}
DEEPSPEC: Raw = {
    **LLAMA,
    "architectures": ["Qwen3Eagle3Model"],
    "model_type": "qwen3",
    "ttt_length": 7,
    "num_target_layers": 36,
    "target_layer_ids": [1, 9, 17, 25, 33],
}
P_EAGLE: Raw = {
    **EAGLE3,
    "architectures": ["PEagleDraftModel"],
    "num_hidden_layers": 4,
    "mask_token_id": 151669,
}
EAGLE: Raw = {**LLAMA, "architectures": ["EagleLlamaForCausalLM"]}
PLAIN: Raw = {
    **LLAMA,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
MTP: Raw = {
    **{key: value for key, value in LLAMA.items() if key != "num_hidden_layers"},
    "architectures": ["MTPDraftModel"],
    "model_type": "mtp",
    "mlp_type": "dense",
    "target_hidden_size": 4096,
    "qk_norm": True,
}
MOE: Raw = {
    **MTP,
    "mlp_type": "moe",
    "num_experts": 4,
    "moe_intermediate_size": 6,
    "num_shared_experts": 2,
}
MIMO: Raw = {
    **LLAMA,
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "num_hidden_layers": 36,
    "num_nextn_predict_layers": 1,
    "attention_bias": True,
}
MEDUSA: Raw = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": 4096,
    "vocab_size": 151936,
    "num_heads": 3,
    "num_hidden_layers": 1,
}
TINY: Mapping[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 20,
    "draft_vocab_size": 10,
    "target_hidden_size": 8,
    "mask_token_id": 19,
}


def tiny(base: Raw, changes: Raw | None = None) -> dict[str, Any]:
    """`base` so small that its tensors can be written; what it does not state stays unstated."""
    small = {key: value for key, value in TINY.items() if key in base}
    return make({**base, **small}, changes)


def judge_with(base: Raw, tensors: set[str] | None = None, changes: Raw | None = None) -> Draft:
    """The changed config, judged with the names of the tensors that its header has."""
    names = None if tensors is None else frozenset(tensors)
    file = DraftFile(make(base, changes), Source("draft", "draft/config.json"), False, names)
    return judge_file(file, Outcome())


def with_target(draft: Draft, **target: object) -> Outcome:
    """The pair rules for `draft` and Qwen3-8B, or a change of it."""
    assert draft.reading is not None
    reading = make_reading(TargetConfig(**{**TARGET, **target}), "target", {})
    return judge_pair(Pair(draft.reading, reading, Asked()))
