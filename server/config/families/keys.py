"""Which keys of a draft's config.json are known: read, harmless, or neither.

Inside dflash_config an unknown key is refused (SD109): every key there may change the
arithmetic. At the top level it is told and ignored (SD111), or refused under --strict.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from server.config.backbone_keys import BACKBONE_KEYS, INERT_KEYS
from server.config.families.dspine_names import BLOCK_CAUSAL, is_dspine_key
from server.config.families.marks import AUX_IDS, MASK_NAMES, is_inert, is_marked
from server.config.families.model import DraftFile
from server.config.rules import finding
from server.config.values import pointer, shorten
from server.findings import Finding, JsonValue, Severity

_TOLD = 30

# Spellings of attention inside the block; a file states them at the top level or in dflash_config.
CAUSAL_KEYS = ("is_causal", "causal", "dflash_query_causal")
WINDOW_KEYS = (
    *("use_swa", "swa_window_size", "swa_layer_pattern"),
    *("draft_sliding_window", "sliding_window_non_causal"),
)
# Keys that change the arithmetic of a block drafter, with the value that is computed here.
COMPUTED: Mapping[str, JsonValue] = {
    "output_multiplier": 1,
    "input_embedding_scale": 1,
    "use_aux_hidden_state": True,
    # MiMo's drafts; gated fusion of AngelSpec and of a fork of speculators.
    "attention_sink_bias": False,
    "attention_value_scale": 1,
    "backbone_rotary_base": None,
    "fusion_type": "concat_fc",
    "gate_temperature": None,
    # Tables of its own, in vLLM and in Model-Optimizer's files; here they are the target's.
    "has_own_embed_tokens": False,
    "has_own_lm_head": False,
    # DeepSpec's and SpecForge's variants: other conditioning, experts, latent or linear attention.
    "attention_modes": None,
    "conditioning_source": None,
    "draft_layer_types": None,
    "enable_qwen35_gated_q_proj": False,
    "log_snr_conditioning": False,
    "moe_preset": None,
}
_EITHER_LEVEL = (
    *("mask_token_id", "target_layer_ids", "block_size", "num_target_layers", "num_anchors"),
    *("sample_from_anchor", *COMPUTED, *CAUSAL_KEYS, *WINDOW_KEYS, AUX_IDS, *MASK_NAMES),
    "attention_mode",
)
# The keys of dflash_config that a block drafter's reader looks at.
NESTED_KEYS = frozenset((*_EITHER_LEVEL, "final_logit_softcapping"))
# Harmless in dflash_config: a token's text, and settings of the training run.
_NESTED_INERT = frozenset(("mask_token", "loss_decay_gamma", "attention_backend"))

_TOP_READ = BACKBONE_KEYS | frozenset(
    (
        *("architectures", "model_type", "dflash_config", "markov_rank", "markov_head_type"),
        *("enable_confidence_head", "confidence_head_with_markov", "bos_token_id", "eos_token_id"),
        *("target_hidden_size", "target_num_hidden_layers", "target_model_type"),
        *_EITHER_LEVEL,
    )
)
# Beside the bookkeeping of transformers, that of trainers.
_TOP_INERT = INERT_KEYS | frozenset(
    (
        *("tie_word_embeddings", "loss_decay_gamma", "attention_backend", "mask_token"),
        *("gradient_checkpointing", "target_model_name_or_path"),
    )
)


def unknown_nested(file: DraftFile, also: Iterable[str] = ()) -> Iterator[Finding]:
    """SD109 for each key inside dflash_config that is not known; `also` are known as well."""
    known = NESTED_KEYS | _NESTED_INERT | frozenset(also)

    def tell(key: str) -> Finding:
        where = file.source.at(pointer("dflash_config", key), file.nested[key])
        message = f"draft dflash_config has key {shorten(key)}, which this server does not know"
        near = did_you_mean(key, known - {"num_anchors"})  # which is refused there (SD304)
        fix = f"did you mean {near}? Otherwise use a server that knows the key" if near else None
        return finding("SD109", message, where, fix=fix)

    # A setting of the training run is one value; an object in its place hides something else.
    hiding = {k for k in _NESTED_INERT if isinstance(file.nested.get(k), Mapping | list)}
    unknown = [k for k, v in file.nested.items() if k not in known and not _null(file, k, v)]
    return some([*unknown, *sorted(hiding)], tell)


def ignored_top(file: DraftFile, also: Iterable[str] = ()) -> Iterator[Finding]:
    """SD111 for each top-level key that is neither read nor harmless; `also` are read as well.

    DSpine keys are left out: SD115 tells them.
    """
    known = _TOP_READ | _TOP_INERT | frozenset(also)

    def tell(key: str) -> Finding:
        where = file.source.at(pointer(key), file.raw[key])
        if meant := _lookalike(key, known):
            message = f"draft key {shorten(key)} is ignored, it looks like {meant}"
            return finding("SD111", message, where, severity=Severity.ERROR)
        return finding(
            "SD111", f"draft key {shorten(key)} is ignored", where, severity=weight(file)
        )

    stated = ((k, v) for k, v in file.raw.items() if k not in known and v is not None)
    unknown = [k for k, v in stated if not _null(file, k, v)]
    return some([k for k in unknown if not is_dspine_key(k) and k != BLOCK_CAUSAL], tell)


def _lookalike(key: str, known: Iterable[str]) -> str:
    """The key that `key` differs from in case, white space or lookalike letters only."""
    if key.isascii() and key == key.strip().casefold():
        return ""
    import unicodedata  # few files have such a key

    plain = unicodedata.normalize("NFKC", key).strip().casefold()
    if plain != key and (plain in known or is_marked(plain) or is_dspine_key(plain)):
        return plain
    mixed = not key.isascii() and any(letter.isascii() and letter.isalpha() for letter in key)
    return "one of ASCII letters alone" if mixed else ""


def some(keys: Sequence[str], tell: Callable[[str], Finding]) -> Iterator[Finding]:
    """One finding for each key; past a limit that no real file reaches, the last one counts."""
    for i, key in enumerate(keys[:_TOLD], start=1):
        told = tell(key)
        if i == _TOLD and len(keys) > _TOLD:
            told = told._replace(message=f"{told.message}, and so for {len(keys) - i} more keys")
        yield told


def _null(file: DraftFile, key: str, value: JsonValue) -> bool:
    return is_inert(file, key, value) or (value is None and is_dspine_key(key))


def weight(file: DraftFile) -> Severity | None:
    """The severity of a key that is not used: the rule's own, or error under --strict."""
    return Severity.ERROR if file.strict else None


def did_you_mean(key: str, known: Iterable[str]) -> str:
    """The known key that `key` may have been meant to be; empty when none is near."""
    from difflib import get_close_matches  # costs 10 ms, wanted only when a key is wrong

    near = get_close_matches(key[:80], sorted(known), n=1, cutoff=0.75)
    return near[0] if near else ""
