"""The config.json of each sample: a small Qwen3 target and drafts that fit it.

The DSpine samples are configs alone: no DSpine draft is ever loaded.
"""

from typing import Any

from server.config.draft import judge_file
from server.config.families.model import DraftFile
from server.config.records import TargetConfig
from server.config.tensors import ExpectedTensor
from server.config.values import Source
from server.findings import Outcome
from server.weights.layout import draft_layout, target_layout

VOCAB_TOKENS = 2048
HIDDEN = 512
MARKOV_RANK = 32

_BOS, _EOS, MASK = VOCAB_TOKENS - 3, VOCAB_TOKENS - 2, VOCAB_TOKENS - 1
_TARGET_LAYERS, _DRAFT_LAYERS = 4, 2
_CAPTURED = [0, 2]
_THETA = 1000000

# Every field that a draft must share with the target.
_GEOMETRY: dict[str, Any] = {
    "head_dim": 128,
    "hidden_size": HIDDEN,
    "intermediate_size": 512,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "vocab_size": VOCAB_TOKENS,
}
_COMMON: dict[str, Any] = {
    **_GEOMETRY,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": _BOS,
    "eos_token_id": _EOS,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "model_type": "qwen3",
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_cache": True,
    "use_sliding_window": False,
}
_TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    **_COMMON,
    "num_hidden_layers": _TARGET_LAYERS,
    "rope_scaling": None,
    "rope_theta": _THETA,
    "torch_dtype": "bfloat16",
}
_DRAFT: dict[str, Any] = {
    **_COMMON,
    "dtype": "bfloat16",
    "layer_types": ["full_attention"] * _DRAFT_LAYERS,
    "num_hidden_layers": _DRAFT_LAYERS,
    "num_target_layers": _TARGET_LAYERS,
}
_NESTED: dict[str, Any] = {"mask_token_id": MASK, "target_layer_ids": _CAPTURED}
_DFLASH: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    **_DRAFT,
    "block_size": 8,
    "dflash_config": _NESTED,
    "rope_scaling": None,
    "rope_theta": _THETA,
}
_DSPARK: dict[str, Any] = {
    "architectures": ["Qwen3DSparkModel"],
    **_DRAFT,
    "block_size": 7,
    "confidence_head_with_markov": True,
    "enable_confidence_head": True,
    "markov_head_type": "vanilla",
    "markov_rank": MARKOV_RANK,
    "mask_token_id": MASK,
    "num_anchors": 512,
    "rope_parameters": {"rope_theta": _THETA, "rope_type": "default"},
    "target_layer_ids": _CAPTURED,
}
_DSPINE: dict[str, Any] = {
    **_DFLASH,
    "dflash_config": {
        **_NESTED,
        "draft_block_causal": True,
        "selected_prefix_code_bridge": {
            "rank": 128,
            "code_size": 32,
            "eps": 1e-06,
            "feature_layers": [1, 2],
        },
        "selected_prefix_last_write_refine": {
            "mode": "serial_table",
            "first_exact": _DRAFT_LAYERS - 1,
            "head_topk": 4,
        },
    },
}
_DSPINE_INVALID: dict[str, Any] = {
    **_DSPINE,
    "conv_kernel_size": 2,
    "head_dim": 64,
    "hidden_size": 256,
    "layer_types": ["full_attention", "sliding_attention"],
    "num_anchors": 512,
    "sliding_window": 1024,
    "use_sliding_window": True,
    "code_bridge_second_pass": {
        "mode": "parallel_table",
        "first_exact": 5,
        "head_topk": 128,
        "temperature": 1.0,
    },
    "dflash_config": {
        **_NESTED,
        "draft_block_causal": False,
        "selected_prefix_code_bridge": {
            "rank": 100,
            "code_size": 0,
            "eps": -1e-06,
            "feature_layers": [2, 1],
            "terminal": True,
            "write_mode": "sequential",
        },
        "selected_prefix_feature_next_token_rows": 4,
        "selected_prefix_feature_reliability": True,
        "selected_prefix_last_write_refine": {
            "mode": "serial_table",
            "first_exact": 9,
            "head_topk": 3,
        },
    },
}

CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3": _TARGET,
    "dflash": _DFLASH,
    "dspark": _DSPARK,
    "dspine": _DSPINE,
    "dspine-invalid": _DSPINE_INVALID,
}


def tensors_of(name: str) -> tuple[ExpectedTensor, ...]:
    """The tensors that sample `name` ships; none for a sample that is a config alone."""
    if name == "qwen3":
        fields = {**_GEOMETRY, "num_hidden_layers": _TARGET_LAYERS, "rope_theta": _THETA}
        return target_layout(TargetConfig(architecture="Qwen3ForCausalLM", **fields))
    draft = judge_file(DraftFile(CONFIGS[name], Source("draft", name)), Outcome())
    record = draft.reading.record if draft.reading and draft.served else None
    return draft_layout(record) if record else ()
