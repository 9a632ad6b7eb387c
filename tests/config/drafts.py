"""Small draft configs of each family, and ways to change one fact of them."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from server.config.draft import Draft, ensure_servable, judge_file
from server.config.families.model import DraftFile
from server.config.values import Source
from server.findings import Finding, Outcome, Severity
from tests.geometry import QWEN3_8B

Raw: TypeAlias = Mapping[str, Any]

GONE: Any = object()  # as a changed value: remove the key

# Each schema has a place of its own for rope_theta.
_GEOMETRY = {name: value for name, value in QWEN3_8B.items() if name != "rope_theta"}
BACKBONE: Raw = {
    "model_type": "qwen3",
    **_GEOMETRY,
    "num_hidden_layers": 5,
    "hidden_act": "silu",
    "attention_bias": False,
    "layer_types": ["full_attention"] * 5,
    "use_sliding_window": False,
    "sliding_window": None,
    "block_size": 16,
    "num_target_layers": 36,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}
IDS = [1, 9, 17, 25, 33]
NESTED: Raw = {
    **BACKBONE,
    "architectures": ["DFlashDraftModel"],
    "rope_theta": 1000000,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": IDS},
}
FLAT: Raw = {
    **BACKBONE,
    "architectures": ["Qwen3DSparkModel"],
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "dtype": "bfloat16",
    "block_size": 7,
    "mask_token_id": 151669,
    "target_layer_ids": IDS,
    "num_anchors": 512,
    "markov_rank": 0,
    "enable_confidence_head": False,
}
DSPARK: Raw = {
    **FLAT,
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
BRIDGE: Raw = {
    "rank": 1024,
    "code_size": 64,
    "eps": 1e-6,
    "feature_layers": [1, 2, 3, 4, 5],
    "kappa": 1.0,
}
REFINE: Raw = {"mode": "serial_table", "first_exact": 4, "head_topk": 16}
DSPINE: Raw = {
    **NESTED,
    "dflash_config": {
        **NESTED["dflash_config"],
        "draft_block_causal": True,
        "selected_prefix_code_bridge": BRIDGE,
        "selected_prefix_last_write_refine": REFINE,
    },
}


def make(base: Raw, changes: Raw | None = None) -> dict[str, Any]:
    """A copy of `base` with each path of `changes` ("dflash_config/block_size") set or removed."""
    raw = deepcopy(dict(base))
    for path, value in (changes or {}).items():
        *parents, key = path.split("/")
        level: Any = raw
        for parent in parents:
            level = level[parent]
        if value is GONE:
            del level[key]
        else:
            level[key] = deepcopy(value)
    return raw


def judge(base: Raw, changes: Raw | None = None, strict: bool = False) -> Draft:
    """The changed config, read and judged."""
    file = DraftFile(make(base, changes), Source("draft", "draft/config.json"), strict)
    return judge_file(file, Outcome())


def rules_of(draft: Draft) -> list[str]:
    """The ids of the draft's own findings, in order."""
    return [found.rule for found in draft.outcome.findings]


def finding_of(draft: Draft, rule: str) -> Finding:
    """The one finding of `rule`."""
    (found,) = [f for f in draft.outcome.findings if f.rule == rule]
    return found


def refusals(draft: Draft, spec_method: str = "auto") -> list[str]:
    """The ids of the errors that a boot would tell for this draft, in order."""
    total = ensure_servable(draft, spec_method) + draft.outcome
    return [f.rule for f in total.findings if f.severity is Severity.ERROR]
