"""The Qwen3 decoder that target and draft share: picking its fields, judging its arithmetic.

Transformers 4 and 5 spell two facts differently (`torch_dtype`/`dtype`, top-level
`rope_theta`/`rope_parameters.rope_theta`); both spellings are read and must agree.
Source: huggingface/transformers src/transformers/models/qwen3/configuration_qwen3.py.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from server.config.checks import Check, Reading, run_checks
from server.config.fields import Picked, pick, pick_one, pick_rope_theta
from server.config.records import Backbone
from server.config.rules import finding
from server.config.values import Source, kind, pointer, same, shorten
from server.findings import Finding, JsonValue, Outcome

_NUMBERS = (
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
_COMPUTED: Mapping[str, JsonValue] = {
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
# Of the attention pattern: the JSON kind of each key, and how it is asked for.
_KINDS: Mapping[str, tuple[str, str]] = {
    "layer_types": ("list", "a list"),
    "use_sliding_window": ("boolean", "true or false"),
    "sliding_window": ("integer", "an integer"),
}
_STATE_WINDOW = "set use_sliding_window to false, if the checkpoint was trained without a window"
_QUANTISED = ("quantization_config", "compression_config", "quantization", "quant_config")
_QUANTISED_DTYPES = ("float8", "fp8", "float4", "fp4", "int", "uint")
_ROPE_KEYS = frozenset(
    ("rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings")
)
# Every top-level key that this module reads.
BACKBONE_KEYS = frozenset(
    (
        *_NUMBERS,
        *_COMPUTED,
        *_QUANTISED,
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


class Decoder(NamedTuple):
    """What the checks below look at: the raw file, and what could be read of it."""

    raw: Mapping[str, JsonValue]
    reading: Reading[Backbone]

    @property
    def source(self) -> Source:
        """The file, for findings."""
        return Source(self.reading.role, self.reading.file)

    @property
    def partial(self) -> Backbone:
        """The fields that could be read."""
        return self.reading.partial


def pick_backbone(raw: Mapping[str, JsonValue], source: Source) -> dict[str, Picked]:
    """Every field of `Backbone`, by name."""
    picked = {name: pick(raw, name) for name in _NUMBERS}
    picked["rope_theta"] = pick_rope_theta(raw, source)
    picked["dtype"] = pick_dtype(raw, source)
    return picked


def pick_dtype(raw: Mapping[str, JsonValue], source: Source) -> Picked:
    """dtype (transformers 5) or torch_dtype; both must agree. SD309 for a quantised one."""
    places = (pick(raw, "dtype"), pick(raw, "torch_dtype"))
    stated = [place for place in places if place.present and place.value is not None]
    picked = pick_one("dtype", source, *(stated or places))
    if picked.findings or not isinstance(picked.value, str):
        return picked
    if not picked.value.startswith(_QUANTISED_DTYPES):
        return picked._replace(value=picked.value.removeprefix("torch."))
    message = f"{source.role} dtype is {shorten(picked.value)}, an unquantised type is needed"
    fault = finding("SD309", message, source.at(picked.pointer, picked.value))
    return Picked(picked.value, picked.pointer, findings=(fault,))


def judge_backbone(raw: Mapping[str, JsonValue], reading: Reading[Backbone]) -> Outcome:
    """All checks of this module on one file (SD107, SD117, SD119, SD307, SD308, SD309, SD311)."""
    return run_checks((*ATTENTION, *ARITHMETIC), Decoder(raw, reading), reading.unresolved)


def judge_arithmetic(raw: Mapping[str, JsonValue], reading: Reading[Backbone]) -> Outcome:
    """The same without the attention pattern, for a family that has rules of its own about it."""
    return run_checks(ARITHMETIC, Decoder(raw, reading), reading.unresolved)


def differs(value: JsonValue, computed: JsonValue) -> bool:
    """True when a stated value is not the one that the forward computes. Null states nothing."""
    return value is not None and not same(value, computed)


def _kinds(decoder: Decoder) -> Iterator[Finding]:
    for key, (wanted, need) in _KINDS.items():
        value = decoder.raw.get(key)
        if kind(value) not in (wanted, "null"):
            message = f"{decoder.source.role} {key} is {shorten(value)}, {need} is needed"
            yield finding("SD107", message, decoder.source.at(pointer(key), value))


def _layer_types_length(decoder: Decoder) -> Iterator[Finding]:
    types = decoder.raw.get("layer_types")
    layers = decoder.partial.num_hidden_layers
    if not isinstance(types, list) or len(types) == layers:
        return
    role, source = decoder.source.role, decoder.source
    message = f"{role} layer_types has {len(types)} entries, num_hidden_layers is {layers}"
    where = source.at("/layer_types", types), source.at("/num_hidden_layers", layers)
    yield finding("SD117", message, *where)


def head_groups(decoder: Decoder) -> Iterator[Finding]:
    """SD119 when query heads cannot be shared out over key/value heads."""
    heads, kv_heads = decoder.partial.num_attention_heads, decoder.partial.num_key_value_heads
    if heads % kv_heads:
        source = decoder.source
        message = (
            f"{source.role} num_attention_heads is {heads}, no multiple of "
            f"num_key_value_heads {kv_heads}"
        )
        places = ("num_attention_heads", heads), ("num_key_value_heads", kv_heads)
        pointers = decoder.reading.pointers
        yield finding("SD119", message, *(source.at(pointers[k], v) for k, v in places))


def _even_head(decoder: Decoder) -> Iterator[Finding]:
    head_dim = decoder.partial.head_dim
    if head_dim % 2:
        message = f"{decoder.source.role} head_dim is {head_dim}, an even number is needed"
        yield finding("SD119", message, decoder.source.at("/head_dim", head_dim))


def _sliding(decoder: Decoder) -> Iterator[Finding]:
    raw, source = decoder.raw, decoder.source
    use, window = pick(raw, "use_sliding_window"), pick(raw, "sliding_window")
    # Where it is not stated, transformers takes a window of 4096.
    windowed = window.value is not None or not window.present
    if use.value is True and windowed:
        found = shorten(window.value) if window.present else "missing"
        message = f"{source.role} use_sliding_window is true and sliding_window is {found}"
        near = source.near(window.pointer)
        where = source.at(window.pointer, window.value) if window.present else near
        fix = None if window.present else _STATE_WINDOW
        yield finding("SD307", message, source.at(use.pointer, use.value), where, fix=fix)
    yield from _layer_types(raw.get("layer_types"), source)


def _layer_types(types: JsonValue, source: Source) -> Iterator[Finding]:
    if not isinstance(types, list):
        return
    other = [i for i, value in enumerate(types) if value != "full_attention"]
    if other:
        first = types[other[0]]
        message = (
            f"{source.role} layer_types names {shorten(first)} for layer {other[0]}, "
            f"{len(other)} of {len(types)} are not full_attention"
        )
        yield finding("SD307", message, source.at(pointer("layer_types", other[0]), first))


def _rope(decoder: Decoder) -> Iterator[Finding]:
    for key in ("rope_scaling", "rope_parameters"):
        value = decoder.raw.get(key)
        fault = _rope_fault(value)
        if fault:
            message = f"{decoder.source.role} {key} {fault}, the default type is served"
            yield finding("SD308", message, decoder.source.at(pointer(key), value))


def _rope_fault(value: JsonValue) -> str:
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        return f"is {shorten(value)}"
    for key in ("rope_type", "type"):
        if differs(value.get(key), "default"):
            return f"has {key} {shorten(value[key])}"
    extra = next((k for k in value if k not in _ROPE_KEYS and value[k] is not None), None)
    return f"has {shorten(extra)} {shorten(value[extra])}" if extra is not None else ""


def _quantised(decoder: Decoder) -> Iterator[Finding]:
    for key in _QUANTISED:
        value = decoder.raw.get(key)
        if value is not None:
            message = f"{decoder.source.role} {key} is {shorten(value)}, null is needed"
            yield finding("SD309", message, decoder.source.at(pointer(key), value))


def _arithmetic(decoder: Decoder) -> Iterator[Finding]:
    raw, source = decoder.raw, decoder.source
    places = [(pick(raw, key), computed) for key, computed in _COMPUTED.items()]
    tables = ("rope_parameters", "rope_scaling")
    places += [(pick(raw, table, "partial_rotary_factor"), 1) for table in tables]
    for place, computed in places:
        if differs(place.value, computed):
            yield uncomputed(place, computed, source)
    if "head_dim" not in decoder.reading.unresolved:
        value_dim = pick(raw, "v_head_dim")
        if differs(value_dim.value, decoder.partial.head_dim):
            yield uncomputed(value_dim, decoder.partial.head_dim, source)


def uncomputed(place: Picked, computed: JsonValue, source: Source) -> Finding:
    """SD311 for a key whose value the forward does not compute."""
    message = f"{source.role} {place.name} is {shorten(place.value)}, this server computes "
    return finding("SD311", message + _wanted(computed), source.at(place.pointer, place.value))


def _wanted(computed: JsonValue) -> str:
    return f"without it ({kind(computed)})" if computed is None else shorten(computed)


ATTENTION: tuple[Check[Decoder], ...] = (
    Check("SD107", (), _kinds),
    Check("SD117", ("num_hidden_layers",), _layer_types_length),
    Check("SD307", (), _sliding),
)
ARITHMETIC: tuple[Check[Decoder], ...] = (
    Check("SD119", ("num_attention_heads", "num_key_value_heads"), head_groups),
    Check("SD119", ("head_dim",), _even_head),
    Check("SD308", (), _rope),
    Check("SD309", (), _quantised),
    Check("SD311", (), _arithmetic),
)
