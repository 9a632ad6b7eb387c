"""The inputs that a run begins with: a draft of every family, targets, headers and an index.

They are made from the fixtures of the tests; a folder of real files adds its own.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.config.drafts import BACKBONE, DSPARK, DSPINE, FLAT, NESTED, Raw
from tests.fuzz.blob import Blob
from tests.geometry import QWEN3_8B

TARGET: Raw = {
    **QWEN3_8B,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "eos_token_id": 151645,
    "bos_token_id": 151643,
}
_WRAPPED: Raw = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "text_config": {**QWEN3_8B, "model_type": "qwen3_5_text", "eos_token_id": [1, 2]},
}
_MARKOV: Raw = {key: DSPARK[key] for key in DSPARK if "markov" in key or "confidence" in key}
_LLAMA: Raw = {**BACKBONE, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def _nested(**inner: Any) -> Raw:  # noqa: ANN401
    return {**NESTED, "dflash_config": {**NESTED["dflash_config"], **inner}}


# Each family once, by the keys that show it.
FAMILIES: Mapping[str, Raw] = {
    "nested": NESTED,
    "angelslim": {**NESTED, "architectures": ["QwenDFlashDraftModel"], "num_anchors": 512},
    "flat": FLAT,
    "dspark": DSPARK,
    "dspine": {**DSPINE, "code_bridge_second_pass": True},
    "speculators": {
        "speculators_model_type": "dflash",
        "speculators_config": {
            "algorithm": "dflash",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 7}],
            "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-8B"},
        },
        "transformer_layer_config": {**BACKBONE, "rope_theta": 1000000},
        "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
        "mask_token_id": 151669,
        "block_size": 8,
        "sample_from_anchor": True,
        "draft_vocab_size": 32000,
    },
    "dflash2": _nested(conv_kernel_size=4, conv_group_size=8, selector_rank=64, selector_top_k=4),
    "domino": _nested(
        projector_type="domino", emb_dim=256, gru_hidden_dim=512, pure_draft_prefix_len=1
    ),
    "dspark nested": {
        **_nested(projector_type="dspark", attention_mode="gqa", **_MARKOV),
        "architectures": ["DSparkDraftModel"],
    },
    "modelopt": _nested(projector_type="dspark", shift_label=True, use_confidence_head=True),
    "hybrid": {**_nested(), **_MARKOV, "architectures": ["DSparkModel"]},
    "dfly": {
        **FLAT,
        "architectures": ["Qwen3DFlyModel"],
        "enable_hidden_correction": True,
        "target_num_hidden_layers": 36,
    },
    "dflare": {**NESTED, "architectures": ["QwenDFlareDraftModel"], "model_arch": "dflare"},
    "dflare angelspec": {**FLAT, "architectures": ["DFlashDraftModel"], "fusion_type": "gated"},
    "jetspec": _nested(causal_head=True),
    "angelspec": {
        **FLAT,
        "architectures": ["DSparkDraftModel"],
        "model_type": "dspark",
        "target_hidden_size": 4096,
        "target_num_hidden_layers": 36,
    },
    "mimo": _nested(attention_sink_bias=True, attention_value_scale=0.7, use_swa=True),
    "p-eagle": {**_LLAMA, "architectures": ["PEagleForCausalLM"], "ptd_token_id": 5},
    "eagle3": {**_LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000},
    "eagle3 config": {**_LLAMA, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}},
    "medusa": {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "x"},
    "mtp": {**_LLAMA, "model_type": "qwen3_next_mtp", "num_nextn_predict_layers": 1},
    "eagle": {**_LLAMA, "num_hidden_layers": 1},
    "draft model": {**_LLAMA, "num_hidden_layers": 12},
    "scaled": {**NESTED, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
}
_HEADER: Raw = {
    "__metadata__": {"format": "pt"},
    "norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]},
    "fc.weight": {"dtype": "BF16", "shape": [4096, 5, 0], "data_offsets": [8192, 8192]},
    "d2t": {"dtype": "I64", "shape": [4], "data_offsets": [8192, 8224]},
}
_INDEX: Raw = {
    "metadata": {"total_size": 8224},
    "weight_map": {"norm.weight": "model.safetensors", "fc.weight": "model-00001.safetensors"},
}


def fixed_target() -> bytes:
    """The config of the target that every draft is paired with: Qwen3-8B's facts."""
    return _json(TARGET)


def seeds(real: Path | None = None) -> Iterator[Blob]:
    """Every seed; `real` is a folder of folders of real config files."""
    target, wrapped = _json(TARGET), _json(_WRAPPED)
    for raw in FAMILIES.values():
        yield Blob(_json(raw))
    yield Blob(_json(NESTED), target)
    yield Blob(_json(DSPARK), wrapped)
    yield Blob(_json(NESTED), b"", _json(_HEADER))
    yield Blob(_json(FLAT), target, _json(_HEADER), _json(_INDEX))
    yield Blob(_json(NESTED), b"", len(b"{}").to_bytes(8, "little") + b"{}")
    if real is not None:
        for path in _real(real):
            data = path.read_bytes()
            yield Blob(_json(NESTED), data) if path.parent.name == "target" else Blob(data)


def write_seeds(folder: Path, blobs: Iterable[Blob]) -> None:
    """Each seed as a file of its own, which an engine can read."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, blob in enumerate(blobs):
        (folder / f"seed-{number:03d}").write_bytes(blob.packed())


def _real(root: Path) -> list[Path]:
    found = [path for path in sorted(root.glob("*/*.json")) if path.stat().st_size < 65536]
    if not found:
        raise FileNotFoundError(f"no real configuration files below {root}")
    return found


def _json(raw: Raw) -> bytes:
    return json.dumps(raw).encode()


def main(arguments: list[str]) -> None:
    """FOLDER [REAL]: write the seeds."""
    write_seeds(Path(arguments[0]), seeds(Path(arguments[1]) if arguments[1:] else None))


if __name__ == "__main__":
    main(sys.argv[1:])
