"""The files that the check's benchmark reads: real shapes, no weights. Sizes are those of Qwen3-4B.

Tensor names and shapes of the draft: the public shape table of DeepSeek's DSpark drafts in
pegainfer-project/pegainfer docs/models/qwen3/dspark-integration.md.
"""

import json
from math import prod
from pathlib import Path
from typing import Any

LAYERS, HIDDEN, INTERMEDIATE, VOCAB, RANK = 5, 2560, 9728, 151936, 256
QUERY, KEY_VALUE, HEAD = 32 * 128, 8 * 128, 128
CAPTURED = [1, 9, 17, 25, 33]
TENSORS = 64
_BF16_BYTES = 2

_DECODER: dict[str, Any] = {
    "attention_bias": False,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "max_position_embeddings": 40960,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": VOCAB,
}
_TARGET: dict[str, Any] = {
    **_DECODER,
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 36,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
_DRAFT: dict[str, Any] = {
    **_DECODER,
    "architectures": ["Qwen3DSparkModel"],
    "block_size": 7,
    "confidence_head_with_markov": True,
    "dtype": "bfloat16",
    "enable_confidence_head": True,
    "layer_types": ["full_attention"] * LAYERS,
    "markov_head_type": "vanilla",
    "markov_rank": RANK,
    "mask_token_id": 151669,
    "num_anchors": 512,
    "num_hidden_layers": LAYERS,
    "num_target_layers": 36,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "target_layer_ids": CAPTURED,
    "tie_word_embeddings": False,
}
_MODULES = ("linear_attn.out_proj", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z")
_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def write_target(work: Path) -> Path:
    """A bare config file of Qwen3-4B."""
    path = work / "qwen3-4b.json"
    path.write_text(json.dumps(_TARGET))
    return path


def write_draft(work: Path) -> Path:
    """A DSpark draft for it: config and a weight file with a real header and a hole after it.

    Raises RuntimeError when the header does not hold 64 tensors.
    """
    folder = work / "dspark"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(_DRAFT))
    header: dict[str, Any] = {}
    end = 0
    for name, shape in _tensors().items():
        begin, end = end, end + prod(shape) * _BF16_BYTES
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    if len(header) != TENSORS:
        raise RuntimeError(f"the header holds {len(header)} tensors, {TENSORS} are wanted")
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return folder


def write_large_target(work: Path) -> Path:
    """A quantised, nested config of another architecture, of about 88 kB."""
    layers = [f"model.language_model.layers.{n}." for n in range(64)]
    fp8 = [layer + module for layer in layers for module in _MODULES]
    fp4 = [layer + module for layer in layers for module in _MLP]
    text = {**_DECODER, "model_type": "qwen3_5_text", "hidden_size": 5120, "vocab_size": 248320}
    text |= {"num_hidden_layers": 64, "rope_parameters": {"rope_theta": 10000000}}
    text |= {"layer_types": ["linear_attention"] * 64, "max_position_embeddings": 262144}
    raw = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": text,
        "vision_config": {"depth": 27, "hidden_size": 1152, "model_type": "qwen3_5_vision"},
        "quantization_config": {
            "config_groups": {
                "group_0": {"weights": {"num_bits": 8}, "targets": fp8},
                "group_1": {"weights": {"num_bits": 4, "group_size": 16}, "targets": fp4},
            },
            "quantized_layers": {name: {"quant_algo": "FP8"} for name in fp8}
            | {name: {"quant_algo": "W4A16_NVFP4", "group_size": 16} for name in fp4},
            "ignore": ["mtp*"],
            "quant_method": "modelopt",
        },
    }
    path = work / "quantised.json"
    path.write_text(json.dumps(raw, indent=4))
    return path


def _tensors() -> dict[str, list[int]]:
    shapes = {"fc.weight": [HIDDEN, HIDDEN * len(CAPTURED)]}
    shapes |= {f"{name}.weight": [HIDDEN] for name in ("hidden_norm", "norm")}
    shapes |= {f"{name}.weight": [VOCAB, HIDDEN] for name in ("embed_tokens", "lm_head")}
    shapes |= {f"markov_head.markov_w{n}.weight": [VOCAB, RANK] for n in (1, 2)}
    shapes |= {"confidence_head.proj.weight": [1, HIDDEN + RANK], "confidence_head.proj.bias": [1]}
    return shapes | {
        f"layers.{n}.{name}.weight": shape for n in range(LAYERS) for name, shape in _layer()
    }


def _layer() -> list[tuple[str, list[int]]]:
    return [
        ("input_layernorm", [HIDDEN]),
        ("post_attention_layernorm", [HIDDEN]),
        ("self_attn.q_proj", [QUERY, HIDDEN]),
        ("self_attn.k_proj", [KEY_VALUE, HIDDEN]),
        ("self_attn.v_proj", [KEY_VALUE, HIDDEN]),
        ("self_attn.o_proj", [HIDDEN, QUERY]),
        ("self_attn.q_norm", [HEAD]),
        ("self_attn.k_norm", [HEAD]),
        ("mlp.gate_proj", [INTERMEDIATE, HIDDEN]),
        ("mlp.up_proj", [INTERMEDIATE, HIDDEN]),
        ("mlp.down_proj", [HIDDEN, INTERMEDIATE]),
    ]
