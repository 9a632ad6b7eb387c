"""Mutations that may pass in silence, each with the ground on which it does.

An entry stands for each of its fields with each of its mutations in each of its schemas; one
that no fixture needs is a failure of the test, so that no ground outlives its reason.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[str, str, str]  # schema, field, mutation


class Harmless(NamedTuple):
    """Why nothing has to be told when one of `fields` meets one of `mutations`."""

    schemas: str
    fields: str
    mutations: str
    ground: str

    def keys(self) -> Iterator[Key]:
        """Each schema, field and mutation that the entry stands for."""
        for schema in self.schemas.split():
            for field in self.fields.split():
                for mutation in self.mutations.split():
                    yield schema, field, mutation


_NESTED = "nested angelslim"
_FLAT = "flat dspark"
_ALL = f"{_NESTED} {_FLAT}"
_ANY_NUMBER = "delete null string true list +1 -1"
_TRAINED = "fixed by training, and nothing else in the config or the header states it"
_BOOKKEEPING = "bookkeeping of the program that saved the file; no forward reads it"
_TRAINING = "an option of the training run; no forward of a server reads it"
_BOTH_LEVELS = "read at the top level and in dflash_config alike"
_PLAIN = "states what is computed anyway; so does its absence, and a null"
_EITHER = "states what is computed anyway, at either level"
_EQUAL = "the same number; the type matters where a size is read, here it is only compared"
_UNTIED = "a draft has no embedding and no head of its own; the target's are used"
_STOPS = "the target's own ids begin and end a text; the draft's are compared with its mask only"

HARMLESS: tuple[Harmless, ...] = (
    Harmless(_ALL, "transformers_version", "delete null number true list letter", _BOOKKEEPING),
    Harmless(_ALL, "use_cache", "delete null string number list flip", _BOOKKEEPING),
    Harmless(_ALL, "attention_dropout", f"{_ANY_NUMBER} number", _TRAINING),
    Harmless(_ALL, "initializer_range", f"{_ANY_NUMBER} x10", _TRAINING),
    Harmless(_ALL, "tie_word_embeddings", "delete null string number list flip", _UNTIED),
    Harmless(_ALL, "bos_token_id eos_token_id", f"{_ANY_NUMBER} number", _STOPS),
    Harmless(_ALL, "pad_token_id", "delete string number true list", _STOPS),
    Harmless(
        "dspark",
        "enable_confidence_head",
        "delete null flip",
        "the confidence head is never loaded: it predicts acceptance, and changes no drafted token",
    ),
    Harmless(
        _ALL,
        "max_window_layers",
        f"{_ANY_NUMBER} number",
        "read by transformers only where sliding windows are used, and those are refused",
    ),
    Harmless(
        _NESTED,
        "auto_map",
        "delete null string number true list scalar",
        "names remote code, which is never run",
    ),
    Harmless(
        _NESTED,
        "auto_map.AutoModel",
        "delete null number true list letter",
        "names remote code, which is never run",
    ),
    Harmless(
        "angelslim", "num_anchors", f"{_ANY_NUMBER} number", f"{_TRAINING}, as AngelSlim writes it"
    ),
    Harmless("angelslim", "loss_decay_gamma", f"{_ANY_NUMBER} number x10 move", _TRAINING),
    Harmless(
        "angelslim", "attention_backend", "delete null number true list letter move", _TRAINING
    ),
    Harmless(
        _FLAT,
        "num_anchors",
        "+1 -1",
        "the count is an option of the training run; that it is stated shows the anchor layout",
    ),
    Harmless(
        _ALL,
        "hidden_act",
        "delete null",
        "Qwen3 in transformers takes silu where it is not stated, and silu is computed",
    ),
    Harmless(
        _ALL,
        "attention_bias",
        "delete null",
        "none where it is not stated; a bias would stand in the header, and is refused there",
    ),
    Harmless(
        _ALL,
        "layer_types",
        "delete null",
        "full attention in every layer where it is not stated and use_sliding_window is not true",
    ),
    Harmless(
        _ALL,
        "use_sliding_window",
        "delete null",
        "false where it is not stated",
    ),
    Harmless(
        _ALL,
        "use_sliding_window",
        "flip",
        "true beside a sliding_window of null asks for a window of no size; transformers takes "
        "full attention, as layer_types says",
    ),
    Harmless(
        _ALL,
        "sliding_window",
        "delete number",
        "a size is not read where use_sliding_window is false",
    ),
    Harmless(_NESTED, "rope_scaling", "delete", "null states nothing, as its absence does"),
    Harmless(_NESTED, "rope_theta", "number", "1000000.0 is the same number"),
    Harmless(_FLAT, "rope_parameters.rope_theta", "number", "1000000.0 is the same number"),
    Harmless(
        _FLAT,
        "rope_parameters.rope_theta",
        "move",
        "read at the top level (transformers 4) and in the table (transformers 5) alike",
    ),
    Harmless(
        _FLAT,
        "rope_parameters.rope_type",
        "delete null",
        "the default type where it is not stated; any other type has keys that are refused",
    ),
    Harmless(
        _ALL,
        "dtype",
        "delete null",
        "the header states what is stored, and that is read and billed",
    ),
    Harmless(
        _NESTED,
        "torch_dtype",
        "delete null",
        "the header states what is stored, and that is read and billed",
    ),
    Harmless(
        _ALL,
        "max_position_embeddings",
        "+1",
        "more positions than the target needs; rotary tables are computed, not stored",
    ),
    Harmless(_NESTED, "block_size num_target_layers", "move", _BOTH_LEVELS),
    Harmless(
        _NESTED, "dflash_config.mask_token_id dflash_config.target_layer_ids", "move", _BOTH_LEVELS
    ),
    Harmless(_ALL, "block_size", "+1 -1", _TRAINED),
    Harmless(_NESTED, "dflash_config.mask_token_id", "+1 -1", _TRAINED),
    Harmless(_FLAT, "mask_token_id", "+1 -1", _TRAINED),
    Harmless(
        _NESTED,
        "dflash_config.target_layer_ids[0] dflash_config.target_layer_ids[-1]",
        "+1 -1",
        f"{_TRAINED}: the header shows how many layers are captured, not which",
    ),
    Harmless(
        _FLAT,
        "target_layer_ids[0] target_layer_ids[-1]",
        "+1 -1",
        f"{_TRAINED}: the header shows how many layers are captured, not which",
    ),
    Harmless(
        "flat",
        "markov_rank",
        "delete null",
        "0 where it is not stated; a Markov head would stand in the header, and is refused there",
    ),
    Harmless(
        "flat",
        "enable_confidence_head",
        "delete null",
        "false where it is not stated; a head would stand in the header, and is refused there",
    ),
    Harmless(
        "stated",
        "target_hidden_size v_head_dim mlp_bias partial_rotary_factor use_mrope use_qk_norm "
        "draft_vocab_size dflash_config.use_swa dflash_config.causal dflash_config.is_causal "
        "dflash_config.sample_from_anchor dflash_config.output_multiplier "
        "dflash_config.input_embedding_scale dflash_config.use_aux_hidden_state "
        "dflash_config.projector_type dflash_config.fusion_type dflash_config.shift_label "
        "dflash_config.causal_head dflash_config.attention_sink_bias "
        "dflash_config.attention_value_scale",
        "delete null",
        _PLAIN,
    ),
    Harmless(
        "stated",
        "attn_logit_softcapping quantization_config dflash_config.final_logit_softcapping",
        "delete",
        "null states nothing",
    ),
    Harmless(
        "stated",
        "target_num_hidden_layers dflash_config.block_size",
        "delete null",
        "a size that is stated twice is stated once without it",
    ),
    Harmless(
        "stated",
        "draft_vocab_size dflash_config.use_swa dflash_config.causal dflash_config.is_causal "
        "dflash_config.sample_from_anchor dflash_config.output_multiplier "
        "dflash_config.input_embedding_scale dflash_config.use_aux_hidden_state "
        "dflash_config.projector_type dflash_config.fusion_type dflash_config.shift_label "
        "dflash_config.causal_head dflash_config.attention_sink_bias "
        "dflash_config.attention_value_scale dflash_config.final_logit_softcapping "
        "dflash_config.block_size",
        "move",
        _EITHER,
    ),
    Harmless(
        "stated",
        "partial_rotary_factor dflash_config.output_multiplier "
        "dflash_config.input_embedding_scale dflash_config.attention_value_scale",
        "number",
        "1 and 1.0 are the same factor",
    ),
    Harmless(
        "stated",
        "v_head_dim draft_vocab_size target_num_hidden_layers dflash_config.block_size",
        "number",
        _EQUAL,
    ),
    Harmless(
        "stated",
        "dflash_config.mask_token",
        "delete null number true move letter",
        "the text of the mask token; the server reads its id",
    ),
)


def grounds() -> Mapping[Key, str]:
    """The ground of each schema, field and mutation. Raises ValueError for one given twice."""
    found: dict[Key, str] = {}
    for entry in HARMLESS:
        for key in entry.keys():  # noqa: SIM118
            if key in found:
                raise ValueError(f"{key} has two grounds: {found[key]}; {entry.ground}")
            found[key] = entry.ground
    return found
