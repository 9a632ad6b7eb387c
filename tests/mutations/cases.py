"""The drafts that are mutated, each with the target that it is served with.

Small fixtures carry every key that real files of their schema carry, so that the table is whole
without any real file; with real files each of those that is served gets a table of its own.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.config.drafts import DSPARK, FLAT, GONE, NESTED, Raw, make
from tests.geometry import QWEN3_8B

_TRANSFORMERS: Raw = {
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "transformers_version": "4.57.3",
    "use_cache": True,
    "tie_word_embeddings": False,
    "max_window_layers": 5,
    "pad_token_id": None,
}
_ZLAB: Raw = make(
    NESTED,
    {
        **_TRANSFORMERS,
        "torch_dtype": GONE,
        "dtype": "bfloat16",
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    },
)
_MODELOPT: Raw = make(
    NESTED,
    {
        **dict.fromkeys(("bos_token_id", "eos_token_id"), GONE),
        **dict.fromkeys(("use_sliding_window", "sliding_window"), GONE),
        **{key: _TRANSFORMERS[key] for key in ("attention_dropout", "initializer_range")},
        "tie_word_embeddings": False,
    },
)
_ANGELSLIM: Raw = {
    **_ZLAB,
    "architectures": ["QwenDFlashDraftModel"],
    "torch_dtype": "bfloat16",
    "num_anchors": 512,
    "loss_decay_gamma": 7.0,
    "attention_backend": "flex_attention",
}
# Keys that no served file has to carry: each states what is computed anyway.
_PLAIN_NESTED: Raw = {
    **{"use_swa": False, "causal": False, "is_causal": False, "sample_from_anchor": False},
    **{"output_multiplier": 1.0, "input_embedding_scale": 1, "use_aux_hidden_state": True},
    **{"projector_type": "dflash", "fusion_type": "concat_fc", "shift_label": False},
    **{"causal_head": False, "attention_sink_bias": False, "attention_value_scale": 1.0},
    **{"mask_token": "<|MASK|>", "final_logit_softcapping": None, "block_size": 16},
}
_PLAIN_TOP: Raw = {
    **{"target_hidden_size": 4096, "target_num_hidden_layers": 36, "v_head_dim": 128},
    **{"mlp_bias": False, "partial_rotary_factor": 1.0, "use_mrope": False, "use_qk_norm": True},
    **{"attn_logit_softcapping": None, "quantization_config": None, "draft_vocab_size": 151936},
}
_STATED: Raw = {
    **_ZLAB,
    **_PLAIN_TOP,
    "dflash_config": {**_ZLAB["dflash_config"], **_PLAIN_NESTED},
}
_FLAT_ONLY: Raw = {**_TRANSFORMERS, "max_window_layers": 36, "transformers_version": "5.0.0"}
_TARGET: Raw = {
    **QWEN3_8B,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
FOLDERS = {"dflash_nested": "nested", "dflash_flat": "flat", "dspark_flat": "dspark"}


@dataclass(frozen=True)
class Case:
    """A draft, its schema as the harmless list names it, and the target's config.

    `only` are the fields to change, as tables show them; all when empty.
    """

    name: str
    schema: str
    draft: Mapping[str, Any]
    target: Mapping[str, Any]
    only: tuple[str, ...] = ()


FIXTURES: tuple[Case, ...] = (
    Case("DFlash, nested", "nested", _ZLAB, _TARGET),
    Case("DFlash, nested, ModelOpt", "nested", _MODELOPT, _TARGET),
    Case("DFlash, nested, AngelSlim", "angelslim", _ANGELSLIM, _TARGET),
    Case(
        "DFlash, nested, what need not be stated",
        "stated",
        _STATED,
        _TARGET,
        only=(*_PLAIN_TOP, *(f"dflash_config.{key}" for key in _PLAIN_NESTED)),
    ),
    Case("DFlash, flat", "flat", {**FLAT, **_FLAT_ONLY}, _TARGET),
    Case("DSpark, flat", "dspark", {**DSPARK, **_FLAT_ONLY}, _TARGET),
)


def real_pairs(root: Path, folder: str) -> Iterator[Case]:
    """Each real draft of a folder with each real Qwen3 target; most pairs are not served."""
    targets = [json.loads(path.read_text()) for path in sorted((root / "target").glob("*.json"))]
    dense = [t for t in targets if t.get("architectures") == ["Qwen3ForCausalLM"]]
    for path in sorted((root / folder).glob("*.json")):
        draft, schema = json.loads(path.read_text()), FOLDERS[folder]
        if draft.get("architectures") == _ANGELSLIM["architectures"]:
            schema = "angelslim"
        for target in dense:
            yield Case(f"{folder}/{path.stem}", schema, draft, target)
