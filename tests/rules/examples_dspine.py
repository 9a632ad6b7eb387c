"""Examples of the rules about DSpine drafts (SD320 to SD336)."""

from typing import Any

from tests.config.drafts import GONE, REFINE, Raw
from tests.rules.example import Example
from tests.rules.gate_run import DSPINE_BASE as DSPINE
from tests.rules.gate_run import pair
from tests.rules.make_case import make_example

_BRIDGE = "dflash_config/selected_prefix_code_bridge"
_REFINE = "dflash_config/selected_prefix_last_write_refine"
_SECOND = "code_bridge_second_pass"
# Every DSpine draft is refused as one; these rules say what else is wrong with the file.
_ALSO = ("SD306",)


def _example(rule: str, fires: Raw, near: Raw) -> Example:
    return make_example(rule, pair(DSPINE, fires), pair(DSPINE, near), _ALSO)


def _one(rule: str, path: str, wrong: Any, right: Any) -> Example:  # noqa: ANN401
    return _example(rule, {path: wrong}, {path: right})


EXAMPLES: tuple[Example, ...] = (
    _example("SD320", {_BRIDGE: GONE}, {}),
    _one("SD321", "dflash_config/draft_block_causal", False, True),
    _one("SD322", "layer_types", ["full_attention"] * 4, ["full_attention"] * 5),
    _example(
        "SD323",
        {"use_sliding_window": None, "sliding_window": 4096},
        {"use_sliding_window": False, "sliding_window": 4096},
    ),
    _one("SD324", "markov_rank", 1, 0),
    _one("SD325", f"{_BRIDGE}/terminal", True, False),
    _one("SD326", f"{_BRIDGE}/independent_writes", False, True),
    _one("SD327", f"{_BRIDGE}/feature_layers", [1, 2, 3, 4], [1, 2, 3, 5]),
    _one("SD328", "dflash_config/selected_prefix_feature_reliability", 1, 0),
    _one("SD329", f"{_BRIDGE}/rank", 1000, 1024),
    _one("SD330", f"{_BRIDGE}/code_size", 0, 1),
    _example("SD331", {_REFINE: GONE}, {_REFINE: GONE, _SECOND: REFINE}),
    _one("SD332", _SECOND, {**REFINE, "head_topk": 32}, REFINE),
    _one("SD333", f"{_REFINE}/head_topk", 128, 64),
    _one("SD334", _SECOND, {**REFINE, "topk": 16}, {**REFINE, "version": 1}),
    _one("SD335", "dflash_config/conv_kernel_size", 4, None),
    make_example(
        "SD336",
        pair(DSPINE, {"hidden_size": 4607}, {"hidden_size": 4607}),
        pair(DSPINE, {"hidden_size": 4608}, {"hidden_size": 4608}),
        _ALSO,
    ),
)
