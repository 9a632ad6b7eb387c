"""A plain small model as the draft: a causal language model with none of the drafters' keys.

It has a width and a depth of its own; only its vocabulary has to be the target's. Source:
vllm-project/vllm vllm/config/speculative.py.
"""

from collections.abc import Iterator

from server.config.backbone import pick_dtype
from server.config.families.by_header import MODULES, has_module, is_complete
from server.config.families.eagle_fields import decoder_kind, pick_sizes
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import as_causal_lm
from server.config.fields import Picked, given, said
from server.config.layers import SIZES, DecoderKind, Layer, whole
from server.config.records import Backbone, BlockDraft, Count
from server.config.tensors import ExpectedTensor, Tensors, expect

_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_OWN = {name: f"own_{name}" for name in SIZES if name != "vocab_size"}


class PlainDraft(BlockDraft):
    """A complete model. Its own sizes bear names that no pair rule compares with a target's."""

    own_hidden_size: Count
    own_intermediate_size: Count
    own_num_hidden_layers: Count
    own_num_attention_heads: Count
    own_num_key_value_heads: Count
    own_head_dim: Count
    decoder: DecoderKind
    attention_bias: bool = False
    tie_word_embeddings: bool = False


def claim(file: DraftFile) -> Claim:
    """An architecture *ForCausalLM with more than one layer.

    With one layer, or with the key of an MTP module, where the tensors are a complete model's.
    """
    names = file.tensors
    if names is None or not is_complete(names):
        return as_causal_lm(file, "more than 1", lambda layers: layers > 1)
    if not has_module(file, names):
        raw = {key: value for key, value in file.raw.items() if key not in MODULES}
        file = file._replace(raw=raw)
    return as_causal_lm(file, "at least 1", lambda layers: layers > 0)


def _pick(file: DraftFile) -> dict[str, Picked]:
    sizes = pick_sizes(file.top)
    known = file.architecture in _ARCHITECTURES
    kind = decoder_kind(file.architecture or "", file.top("model_type").value) if known else None
    flags = ("attention_bias", "tie_word_embeddings")
    return {
        "vocab_size": sizes["vocab_size"],
        "dtype": pick_dtype(file.raw, file.source),
        "decoder": given(kind)._replace(present=kind is not None),
        **{own: sizes[name] for name, own in _OWN.items()},
        **{name: said(file.top(name)) for name in flags},
    }


def _tensors(plain: PlainDraft) -> Iterator[ExpectedTensor]:
    sizes = {name: getattr(plain, own) for name, own in _OWN.items()}
    model = Backbone.model_construct(**sizes, vocab_size=plain.vocab_size)
    table = ("vocab_size", "hidden_size")
    yield expect(model, "model.embed_tokens.weight", *table)
    for i in range(model.num_hidden_layers):
        yield from whole(Layer(model, f"model.layers.{i}.", plain.decoder, plain.attention_bias))
    yield expect(model, "model.norm.weight", "hidden_size")
    untied = not plain.tie_word_embeddings
    yield expect(model, "lm_head.weight", *table, needed=untied, loaded=untied)


_NEEDS = (*_OWN.values(), "vocab_size", "decoder", "attention_bias", "tie_word_embeddings")

FAMILY = unserved(
    "draft-model",
    "flat",
    claim,
    Form(_pick, PlainDraft, ("vocab_size",)),
    Tensors(_NEEDS, _tensors),
)
