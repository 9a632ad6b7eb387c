"""Small files in the speculators format: one for each algorithm."""

from tests.config.drafts import Raw

_LAYER: Raw = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
}
_ONE_LAYER: Raw = {**_LAYER, "num_hidden_layers": 1}


def _format(algorithm: str, tokens: int) -> Raw:
    """The keys that every file of the format has."""
    method = {"proposal_type": "greedy", "speculative_tokens": tokens}
    return {
        "architectures": ["AnySpeculator"],
        "speculators_model_type": algorithm,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [method],
        },
    }


_BLOCK: Raw = {
    "transformer_layer_config": _LAYER,
    "draft_vocab_size": 32000,
    "block_size": 8,
    "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
    "mask_token_id": 151669,
    "sample_from_anchor": False,
}
DFLASH: Raw = {**_format("dflash", 7), **_BLOCK}
DSPARK: Raw = {
    **_format("dspark", 8),
    **_BLOCK,
    "sample_from_anchor": True,
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
DFLASH2: Raw = {
    **_format("dflash2", 7),
    **_BLOCK,
    "draft_vocab_size": 151936,
    "conv_kernel_size": 2,
    "conv_group_size": 16,
    "selector_rank": 256,
    "selector_top_k": 16,
}
JETSPEC: Raw = {**_format("jetspec", 7), **_BLOCK}
EAGLE3: Raw = {
    **_format("eagle3", 5),
    "transformer_layer_config": _ONE_LAYER,
    "draft_vocab_size": 32000,
    "target_hidden_size": None,
    "norm_before_fc": False,
    "eagle_aux_hidden_state_layer_ids": None,
}
P_EAGLE: Raw = {
    **EAGLE3,
    **_format("peagle", 7),
    "transformer_layer_config": _LAYER,
    "ptd_token_id": 151669,
}
EAGLE: Raw = {
    **_format("eagle", 5),
    "transformer_layer_config": {**_ONE_LAYER, "model_type": "llama"},
    "fusion_bias": False,
    "layernorms": False,
}
MTP: Raw = {
    **_format("mtp", 3),
    "transformer_layer_config": {**_LAYER, "num_hidden_layers": 36},
    "num_nextn_predict_layers": 1,
}
MEDUSA: Raw = {
    **_format("medusa", 5),
    "num_heads": 5,
    "num_hidden_layers": 1,
    "medusa_hidden_size": 4096,
    "medusa_vocab_size": 151936,
    "truncated_vocab_size": 0,
    "original_lm_head": True,
}
FILES: dict[str, Raw] = {
    "dflash": DFLASH,
    "dspark": DSPARK,
    "dflash2": DFLASH2,
    "jetspec": JETSPEC,
    "eagle": EAGLE,
    "eagle3": EAGLE3,
    "peagle": P_EAGLE,
    "mtp": MTP,
    "medusa": MEDUSA,
}
