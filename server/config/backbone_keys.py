"""The top-level keys of a decoder that target and draft share: read, or known to be harmless."""

from collections.abc import Mapping

from server.findings import JsonValue

NUMBERS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
)
# A key here changes the arithmetic; the forward computes the value given. Null states nothing.
COMPUTED: Mapping[str, JsonValue] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "partial_rotary_factor": 1,
    "use_mrope": False,
    "use_qk_norm": True,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    # Of other decoders: a multiplier or another rotation shows in no tensor.
    "attention_multiplier": None,
    "clip_qkv": None,
    "hc_mult": 1,
    "hidden_activation": "silu",
    "kv_lora_rank": None,
    "linear_attn_config": None,
    "logits_scaling": 1,
    "mla_use_nope": False,
    "n_routed_experts": 0,
    "num_experts": 0,
    "num_local_experts": 0,
    "q_lora_rank": None,
    "qk_nope_head_dim": None,
    "qk_norm": True,
    "query_pre_attn_scalar": None,
    "residual_multiplier": 1,
    "rope_interleave": False,
    "rope_is_neox_style": True,
    "scale_depth": None,
    "scale_emb": 1,
    "swiglu_limit": None,
}
# Each says that the weights are quantised, unless it is null.
QUANTISED = ("quantization_config", "compression_config", "quantization", "quant_config")
# Every top-level key that `backbone.py` reads.
BACKBONE_KEYS = frozenset(
    (
        *NUMBERS,
        *COMPUTED,
        *QUANTISED,
        *("rope_theta", "rope_parameters", "rope_scaling", "dtype", "torch_dtype"),
        *("layer_types", "use_sliding_window", "sliding_window", "v_head_dim"),
    )
)

# What transformers writes for its own bookkeeping, for training or for generation; no forward
# reads it. auto_map names remote code, which is never run.
INERT_KEYS = frozenset(
    (
        *("transformers_version", "use_cache", "initializer_range", "attention_dropout"),
        *("auto_map", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"),
        *("max_window_layers", "_name_or_path", "name_or_path", "_commit_hash"),
        *("_attn_implementation", "_attn_implementation_autoset", "attn_implementation"),
        *("tokenizer_class", "pretraining_tp", "return_dict", "output_attentions"),
        *("output_hidden_states", "torchscript", "id2label", "label2id", "problem_type"),
        *("chunk_size_feed_forward", "generation_config"),
        # Whole dumps of older releases, with the defaults of generation among them.
        *("is_decoder", "is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"),
        *("cross_attention_hidden_size", "decoder_start_token_id", "pruned_heads", "prefix"),
        *("finetuning_task", "task_specific_params", "use_bfloat16", "tf_legacy_loss"),
        *("max_length", "min_length", "do_sample", "early_stopping", "num_beams"),
        *("num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p"),
        *("repetition_penalty", "length_penalty", "no_repeat_ngram_size", "bad_words_ids"),
        *("encoder_no_repeat_ngram_size", "num_return_sequences", "output_scores"),
        *("return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id"),
        *("remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens"),
        *("begin_suppress_tokens", "unsloth_fixed", "unsloth_version"),
    )
)
