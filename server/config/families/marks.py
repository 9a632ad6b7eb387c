"""Keys that show a drafter family other than the ones served here.

Each of them changes the arithmetic or the tensors of a file that otherwise looks like DFlash,
so a file that holds one is not DFlash, whatever its architectures say. Sources: the config
files and loaders of sgl-project/SpecForge, NVIDIA/Model-Optimizer, Tencent/AngelSlim,
Tencent/AngelSpec, vllm-project/speculators, SafeAILab/EAGLE, FasterDecoding/Medusa, z-lab/dflash.
"""

from collections.abc import Mapping
from typing import NamedTuple

from server.config.families.model import DraftFile
from server.config.fields import Picked, pick
from server.config.values import same, shorten
from server.findings import JsonValue


class Mark(NamedTuple):
    """A key of another family. With a value in `inert` (or null) it states plain DFlash.

    A `key` that ends with * stands for every key with that beginning, except `but`.
    """

    key: str
    inert: tuple[JsonValue, ...] = ()
    levels: str = "both"
    but: str = ""


# vLLM asks block drafters, too, for the layers whose inputs are captured, and for a mask token
# under EAGLE's names; there they must agree with the block drafter's own (see `common`).
AUX_IDS = "eagle_aux_hidden_state_layer_ids"
MASK_NAMES = ("pard_token", "ptd_token_id")
EAGLE_MARKS = (Mark(AUX_IDS), *map(Mark, MASK_NAMES))
# Order is the order of telling. Foreign to every served family:
MARKS: tuple[Mark, ...] = (
    # speculators format
    Mark("speculators_model_type"),
    Mark("speculators_config"),
    Mark("transformer_layer_config"),
    Mark("aux_hidden_state_layer_ids"),
    # DFlash2
    Mark("conv_*"),
    Mark("selector_*"),
    # Domino, nested DSpark
    Mark("projector_type", ("dflash",)),
    Mark("gru_hidden_dim"),
    Mark("emb_dim"),
    Mark("pure_draft_prefix_len"),
    Mark("shift_label", (False,)),
    Mark("confidence_head_alpha"),
    Mark("use_confidence_head", (False,)),
    # DSpark inside a target
    Mark("dspark_*"),
    # relatives whose keys begin with their name
    *(Mark(f"{name}_*") for name in ("domino", "jetspec", "lilicorr", "hspec", "edsd", "dspine")),
    # DFlare, DFly
    Mark("dflare_*"),
    Mark("dfly_*"),
    Mark("model_arch", ("dflash",)),
    Mark("layer_fusion_*"),
    Mark("enable_hidden_correction", (False,)),
    Mark("hidden_correction_*"),
    # JetSpec, a causal block
    Mark("causal_head", (False,)),
    Mark("draft_block_causal", (False,), levels="nested"),
    # EAGLE-3, P-EAGLE
    Mark("draft_vocab_size"),
    Mark("eagle_*", but=AUX_IDS),
    Mark("ttt_length"),
    Mark("num_aux_hidden_states"),
    Mark("norm_before_*", (False,)),
    Mark("fc_norm", (False,)),
    Mark("norm_output", (False,)),
    # Medusa, MTP
    Mark("medusa_*"),
    Mark("truncated_vocab_size"),
    Mark("mtp_*"),
    Mark("num_nextn_predict_layers", (0,)),
    Mark("num_mtp_modules", (0,)),
)
# And to the nested schema; the flat one has these at the top level.
ALL_MARKS: tuple[Mark, ...] = (
    *MARKS,
    Mark("markov_rank", (0,)),
    Mark("markov_head_type"),
    Mark("enable_confidence_head", (False,)),
    Mark("confidence_head_with_markov", (False,)),
)
_PREFIXES = tuple((m.key[:-1], m) for m in MARKS if m.key.endswith("*"))
_BEGINNINGS = tuple(prefix for prefix, _ in _PREFIXES)
_NAMED = {m.key: m for m in (*ALL_MARKS, *EAGLE_MARKS)}


def foreign_marks(file: DraftFile, marks: tuple[Mark, ...]) -> tuple[Picked, ...]:
    """The places of `marks` in the file, at the top level or in dflash_config."""
    found: list[Picked] = []
    top, nested = (any(map(is_marked, level)) for level in (file.raw, file.nested))
    for mark in marks if top or nested else ():
        if mark.levels == "both":
            found += _matches(mark, file.raw, file, ())
        found += _matches(mark, file.nested, file, ("dflash_config",))
    return tuple(found)


def is_marked(key: str) -> bool:
    """True for a key that shows another family, whatever its value."""
    return key in _NAMED or key.startswith(_BEGINNINGS)


def foreign_key(file: DraftFile, marks: tuple[Mark, ...]) -> str:
    """The first place of `marks` in words, as a reason against a claim; empty for none."""
    found = foreign_marks(file, marks)
    return f"{found[0].pointer} is {shorten(found[0].value)}" if found else ""


def is_inert(file: DraftFile, key: str, value: JsonValue) -> bool:
    """True for a marked key that states plain DFlash, such as projector_type "dflash"."""
    mark = _NAMED.get(key) or next((m for p, m in _PREFIXES if key.startswith(p)), None)
    return mark is not None and not _states(mark, value, file)


def _matches(
    mark: Mark, level: Mapping[str, JsonValue], file: DraftFile, path: tuple[str, ...]
) -> list[Picked]:
    if mark.key.endswith("*"):
        keys = [key for key in level if key.startswith(mark.key[:-1]) and key != mark.but]
    else:
        keys = [mark.key] if mark.key in level else []
    return [pick(file.raw, *path, key) for key in keys if _states(mark, level[key], file)]


def _states(mark: Mark, value: JsonValue, file: DraftFile) -> bool:
    inert = mark.inert
    if mark.key == "draft_vocab_size":
        inert = (file.raw.get("vocab_size"),)  # no reduced vocabulary
    return value is not None and not any(same(value, plain) for plain in inert)
