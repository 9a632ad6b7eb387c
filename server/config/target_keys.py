"""Which top-level keys of a target's config.json are known: read, harmless, or neither (SD111)."""

from collections.abc import Iterator
from itertools import islice

from server.config.backbone import BACKBONE_KEYS
from server.config.rules import finding
from server.config.strict_json import JsonObject
from server.config.values import Source, pointer, shorten
from server.findings import Finding, Severity

_TOLD = 30
_READ: frozenset[str] = BACKBONE_KEYS | {"architectures", "model_type", "tie_word_embeddings"}
# What transformers writes for its own bookkeeping, for training or for generation; the forward
# does not read it. auto_map names remote code, which is never run.
_INERT = (
    {"transformers_version", "use_cache", "initializer_range", "attention_dropout", "auto_map"}
    | {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "max_window_layers"}
    | {"_name_or_path", "name_or_path", "_commit_hash", "_attn_implementation"}
    | {"_attn_implementation_autoset", "attn_implementation", "tokenizer_class", "pretraining_tp"}
    | {"return_dict", "output_attentions", "output_hidden_states", "torchscript"}
    | {"id2label", "label2id", "problem_type", "chunk_size_feed_forward", "generation_config"}
)


def ignored_keys(raw: JsonObject, source: Source, strict: bool) -> Iterator[Finding]:
    """SD111 for each top-level key that nothing reads and that is not known to be harmless.

    A null states nothing. A note, or an error with `strict`.
    """
    severity = Severity.ERROR if strict else None
    unknown = [key for key in raw if raw[key] is not None and key not in _READ | _INERT]
    for key in islice(unknown, _TOLD):
        message = f"{source.role} key {shorten(key)} is ignored"
        yield finding("SD111", message, source.at(pointer(key), raw[key]), severity=severity)
    if len(unknown) > _TOLD:
        message = f"{source.role} has {len(unknown) - _TOLD} more such keys"
        yield finding("SD111", message, source.near(""), severity=severity)
