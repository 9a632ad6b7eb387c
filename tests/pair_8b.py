"""Qwen3-8B and its DFlash draft as files: the real headers, with holes for weights."""

import json
from pathlib import Path

from server.weights.layout import draft_layout, target_layout
from tests.config.drafts import NESTED
from tests.geometry import QWEN3_8B
from tests.weights.make import DRAFT_4B, make_draft, make_target
from tests.weights.sparse import write_shard

TARGET_BYTES, DRAFT_BYTES, BLOCK_BYTES = 16_381_470_720, 2_097_252_864, 2_686_976

_DRAFT = {**DRAFT_4B, **QWEN3_8B, "num_hidden_layers": DRAFT_4B["num_hidden_layers"]}


def write_pair(folder: Path) -> tuple[Path, Path]:
    """Both checkpoints below `folder`: the target, then the draft."""
    config = {**QWEN3_8B, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    target, draft = make_target(**QWEN3_8B), make_draft(**_DRAFT)
    layouts = (
        ("target", config, target_layout(target)),
        ("draft", NESTED, draft_layout(draft)),
    )
    for name, raw, layout in layouts:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps({**raw, "torch_dtype": "bfloat16"}))
        tensors = {t.name: ("BF16", list(t.shape)) for t in layout if t.needed}
        write_shard(folder / name / "model.safetensors", tensors)
    return folder / "target", folder / "draft"
