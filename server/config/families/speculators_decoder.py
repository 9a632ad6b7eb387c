"""transformer_layer_config: a decoder's fields as a difference to the defaults of its class.

A key that is missing there has the default of the class that model_type names; it has no place in
the file. Sources: vllm-project/speculators src/speculators/models/dflash/config.py (to_diff_dict),
huggingface/transformers configuration_qwen3.py, configuration_llama.py, configuration_qwen2.py.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from server.config.checks import Check
from server.config.families.common import Subject
from server.config.families.eagle_fields import decoder_kind, pick_head_dim
from server.config.families.model import DraftFile, fault
from server.config.families.named import stated
from server.config.fields import Picked, given, pick, pick_one, said
from server.config.layers import SIZES
from server.config.rules import finding
from server.config.values import kind
from server.findings import Finding, JsonValue

LAYER = "transformer_layer_config"
_ROPE = (("rope_theta",), ("rope_parameters", "rope_theta"), ("rope_scaling", "rope_theta"))
_QWEN: Mapping[str, JsonValue] = {
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
_LLAMA = {
    **_QWEN,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}
_DEFAULTS: Mapping[JsonValue, Mapping[str, JsonValue]] = MappingProxyType(
    {"qwen3": {**_QWEN, "head_dim": 128}, "qwen2": _QWEN, "llama": _LLAMA}
)


def pick_layer(file: DraftFile, kind_of_class: str, *also: str) -> dict[str, Picked]:
    """The decoder's sizes and the fields `also`; `kind_of_class` is the model_type when none is.

    Of a class that is not known here a missing key is left open.
    """
    model_type = _model_type(file, kind_of_class)
    known = _DEFAULTS.get(model_type, {}) if _has_layer(file) else {}
    picked = {name: or_default(_layer(file, name), known.get(name)) for name in (*SIZES, *also)}
    if "rope_theta" in picked:
        places = tuple(_layer(file, *keys) for keys in _ROPE)
        theta = pick_one("rope_theta", file.source, *(stated(*places) or places))
        picked["rope_theta"] = or_default(theta, known.get("rope_theta"))
    return picked | {"head_dim": pick_head_dim(picked)}


def pick_dtype(file: DraftFile) -> Picked:
    """The dtype, which the model writes at the top level and the decoder's class inside."""
    names = ("dtype", "torch_dtype")
    places = (*map(file.top, names), *(_layer(file, name) for name in names))
    return pick_one("dtype", file.source, *(stated(*places) or (said(places[0]),)))


def pick_kind(file: DraftFile, kind_of_class: str) -> dict[str, Picked]:
    """The kind of decoder layer, for its tensors."""
    known = decoder_kind("", _model_type(file, kind_of_class)) if _has_layer(file) else None
    return {
        "decoder": given(known)._replace(present=known is not None),
        "attention_bias": said(_layer(file, "attention_bias")),
    }


def _model_type(file: DraftFile, kind_of_class: str) -> str:
    named = _layer(file, "model_type").value
    return kind_of_class if named is None else str(named)


def _has_layer(file: DraftFile) -> bool:
    return isinstance(file.raw.get(LAYER), Mapping)


def _layer(file: DraftFile, *keys: str) -> Picked:
    return said(pick(file.raw, LAYER, *keys))


def or_default(place: Picked, default: JsonValue) -> Picked:
    """The place, or the default of its class, which has no place in the file."""
    return place if place.present or default is None else given(default)


def _has_decoder(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    place = file.top(LAYER)
    if place.value is None:
        yield finding("SD105", f"draft {LAYER} is missing", file.at(place))
    elif not isinstance(place.value, Mapping):
        need = f"an object is needed, found {kind(place.value)}"
        yield fault("SD107", file, place, need)


DECODER: tuple[Check[Subject], ...] = (Check("SD105", (), _has_decoder),)
