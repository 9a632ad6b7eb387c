"""Small files of DFlash's relatives: one of each family that is read and not served."""

from typing import Any

from tests.config.drafts import BACKBONE, GONE, IDS, NESTED, Raw, make

CONVOLUTIONS: Raw = {"conv_kernel_size": 2, "conv_group_size": 16}
SELECTOR: Raw = {"selector_rank": 256, "selector_top_k": 16}
HEADS: Raw = {
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
_INNER: Raw = NESTED["dflash_config"]
DFLASH2: Raw = {
    **make(NESTED, {"block_size": GONE}),
    "architectures": ["DFlash2DraftModel"],
    "is_causal": False,
    "dflash_config": {**_INNER, "block_size": 8, **CONVOLUTIONS, **SELECTOR},
}
SPECFORGE: Raw = {
    **NESTED,
    "architectures": ["DSparkDraftModel"],
    "block_size": 7,
    "dflash_config": {
        **_INNER,
        **HEADS,
        "projector_type": "dspark",
        "attention_mode": "gqa",
        "confidence_head_alpha": 1.0,
    },
}
MODELOPT: Raw = {
    **NESTED,
    "block_size": 8,
    "dflash_config": {
        **_INNER,
        "projector_type": "dspark",
        "shift_label": True,
        "markov_rank": 256,
        "markov_head_type": "vanilla",
        "use_confidence_head": True,
    },
}
YARN: Raw = {"rope_type": "yarn", "factor": 16.0, "rope_theta": 1000000}
HYBRID: Raw = {
    **make(NESTED, {"rope_theta": GONE, "rope_scaling": GONE}),
    "block_size": 7,
    "rope_parameters": YARN,
    **HEADS,
}
ANGELSPEC: Raw = {
    **make(BACKBONE, {"block_size": GONE, "head_dim": GONE}),
    "architectures": ["DFlashDraftModel"],
    "model_type": "dflash",
    "rope_theta": 1000000.0,
    "mask_token_id": 151669,
    "target_layer_ids": IDS,
    "num_target_layers": 5,
    "target_hidden_size": 4096,
    "target_num_hidden_layers": 36,
}
ANGELSPEC_DSPARK: Raw = {
    **ANGELSPEC,
    "architectures": ["DSparkDraftModel"],
    "model_type": "dspark",
    **HEADS,
}
DFLY: Raw = {
    **ANGELSPEC,
    "architectures": ["Qwen3DFlyModel"],
    "model_type": "qwen3",
    "enable_hidden_correction": True,
    "hidden_correction_intermediate_size": None,
}
DFLARE: Raw = {**NESTED, "architectures": ["QwenDFlareDraftModel"], "num_anchors": 512}
ANGELSPEC_DFLARE: Raw = {**ANGELSPEC, "model_arch": "dflare"}
GATED: Raw = {**ANGELSPEC, "fusion_type": "gated_sum", "gate_temperature": 1.0}
JETSPEC: Raw = make(NESTED, {"dflash_config/causal_head": True})

FILES: dict[str, Raw] = {
    "dflash2 (nested)": DFLASH2,
    "dspark (nested)": SPECFORGE,
    "dspark (modelopt)": MODELOPT,
    "dspark (hybrid)": HYBRID,
    "dspark (angelspec)": ANGELSPEC_DSPARK,
    "dflash (angelspec)": ANGELSPEC,
    "dfly (angelspec)": DFLY,
    "dflare (nested)": DFLARE,
    "dflare (angelspec)": ANGELSPEC_DFLARE,
    "jetspec (nested)": JETSPEC,
}
TINY: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 20,
    "layer_types": ["full_attention"] * 2,
}


def tiny(base: Raw, changes: Raw | None = None) -> dict[str, Any]:
    """`base` with a geometry so small that its tensors can be written to a file."""
    file = make(base, TINY)
    inner = file.get("dflash_config", file)
    inner["mask_token_id"] = 19
    small = {"target_hidden_size": 8, "conv_group_size": 4, "selector_rank": 3, "markov_rank": 5}
    for level in (file, inner):
        level |= {key: value for key, value in small.items() if key in level}
        if "selector_top_k" in level:
            level["selector_top_k"] = 2
    return make(file, changes)
