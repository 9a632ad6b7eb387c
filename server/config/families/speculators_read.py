"""What a file in the speculators format states for each kind of algorithm.

A top-level key that is missing has the default of the algorithm's class. Sources:
vllm-project/speculators src/speculators/models/{dflash,dspark,dflash2,eagle3,peagle,mtp,medusa,
eagle}/config.py.
"""

from collections.abc import Callable, Mapping

from server.config.families.eagle_fields import AUX_IDS, pick_count, pick_mask
from server.config.families.medusa_heads import reduced
from server.config.families.model import DraftFile
from server.config.families.speculators_decoder import (
    or_default,
    pick_dtype,
    pick_kind,
    pick_layer,
)
from server.config.families.speculators_layout import pick_layout
from server.config.fields import Picked, given, said
from server.findings import JsonValue

_Pick = Callable[[DraftFile], dict[str, Picked]]

_DRAFT_VOCAB: Mapping[str, JsonValue] = {"draft_vocab_size": 32000}
_EAGLE3_KEYS = ("target_hidden_size", "norm_before_fc", "fc_norm")
_ARITHMETIC = ("max_position_embeddings", "rms_norm_eps", "rope_theta")


def block_fields(block_size: int, defaults: Mapping[str, JsonValue] | None = None) -> _Pick:
    """DFlash and its relatives; `defaults` are those of the algorithm's own keys."""
    known = {**_DRAFT_VOCAB, "block_size": block_size, **(defaults or {})}

    def pick(file: DraftFile) -> dict[str, Picked]:
        picked = pick_layer(file, "qwen3", *_ARITHMETIC) | _top(file, known)
        picked |= {name: said(file.top(name)) for name in ("mask_token_id", "target_hidden_size")}
        picked |= _captured(file, "aux_hidden_state_layer_ids")
        layout = pick_layout(file, picked["block_size"])
        return picked | {"dtype": pick_dtype(file), "layout": layout}

    return pick


def eagle3_fields(file: DraftFile) -> dict[str, Picked]:
    """EAGLE-3. Positions and rotary base are the head's own, and not compared."""
    picked = pick_layer(file, "llama") | pick_kind(file, "llama") | _top(file, _DRAFT_VOCAB)
    picked |= {name: said(file.top(name)) for name in _EAGLE3_KEYS}
    picked |= _captured(file, AUX_IDS) | {"dtype": pick_dtype(file)}
    return picked | {"captured_count": pick_count(file, picked["target_layer_ids"])}


def p_eagle_fields(file: DraftFile) -> dict[str, Picked]:
    """P-EAGLE: EAGLE-3's fields and a mask token."""
    return eagle3_fields(file) | {"mask_token_id": pick_mask(file)}


def eagle_fields(file: DraftFile) -> dict[str, Picked]:
    """EAGLE-1, EAGLE-2 and HASS."""
    picked = pick_layer(file, "llama") | pick_kind(file, "llama") | {"dtype": pick_dtype(file)}
    return picked | _top(file, {"fusion_bias": False, "layernorms": False})


def mtp_fields(file: DraftFile) -> dict[str, Picked]:
    """MTP: the decoder's class is the target's, and so is its number of layers."""
    layer = pick_layer(file, "qwen2")
    kind = pick_kind(file, "qwen2")["decoder"]
    return {
        **layer,
        "num_target_layers": layer["num_hidden_layers"],
        "num_hidden_layers": given(1),
        "dtype": pick_dtype(file),
        "module": given("speculators")._replace(present=kind.value == "qwen3"),
        **_top(file, {"num_nextn_predict_layers": 1}),
    }


def medusa_fields(file: DraftFile) -> dict[str, Picked]:
    """Medusa: no decoder at all."""
    sizes = {"hidden_size": "medusa_hidden_size", "vocab_size": "medusa_vocab_size"}
    defaults: Mapping[str, JsonValue] = {
        "num_heads": 5,
        "num_hidden_layers": 1,
        "original_lm_head": True,
        "medusa_fc_bias": False,
    }
    picked = {name: said(file.top(key)) for name, key in sizes.items()}
    return picked | _top(file, defaults) | {"draft_vocab_size": reduced(file)}


def _top(file: DraftFile, defaults: Mapping[str, JsonValue]) -> dict[str, Picked]:
    return {name: or_default(said(file.top(name)), value) for name, value in defaults.items()}


def _captured(file: DraftFile, key: str) -> dict[str, Picked]:
    """The captured layers, by their inputs."""
    return {"target_layer_ids": said(file.top(key)), "layer_id_shift": given(1)}
