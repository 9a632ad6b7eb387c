"""Small checkpoints for the tests: good ones through the safetensors package, bad ones by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from server.config.checks import Reading
from server.config.records import AnchorLayout, Backbone, BlockDraft, TargetConfig
from server.config.tensors import ExpectedTensor
from server.findings import Outcome
from server.weights.index import read_inventory
from server.weights.judge import judge_tensors
from server.weights.load_plan import LoadPlan
from tests.geometry import QWEN3_8B

INDEX = "model.safetensors.index.json"
GEOMETRY: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 20,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "dtype": "bfloat16",
}

# Qwen/Qwen3-8B and the drafts made for Qwen3-4B.
DRAFT_4B = {
    **QWEN3_8B,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 5,
    "num_target_layers": 36,
    "target_layer_ids": (1, 9, 17, 25, 33),
}
DSPARK = {
    "family": "dspark",
    "schema_id": "flat",
    "layout": AnchorLayout.FIRST,
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}


def make_target(**changes: object) -> TargetConfig:
    fields = {**GEOMETRY, "num_hidden_layers": 2, "architecture": "Qwen3ForCausalLM"}
    return TargetConfig(**{**fields, **changes})


def make_draft(**changes: object) -> BlockDraft:
    fields = {
        **GEOMETRY,
        "family": "dflash",
        "schema_id": "nested",
        "num_hidden_layers": 1,
        "block_size": 4,
        "mask_token_id": 19,
        "target_layer_ids": (0, 1, 2),
        "num_target_layers": 4,
        "layout": AnchorLayout.DROP,
    }
    return BlockDraft(**{**fields, **changes})


def make_reading(record: Backbone, role: str = "target") -> Reading[Backbone]:
    fields = (*type(record).model_fields,)
    pointers = {name: f"/{name}" for name in fields}
    return Reading(role, "config.json", record, record, {}, pointers, Outcome())


def make_tensors(
    layout: Sequence[ExpectedTensor], dtype: torch.dtype = torch.bfloat16
) -> dict[str, torch.Tensor]:
    """Random values for every tensor of `layout`."""
    maker = torch.Generator().manual_seed(7)
    return {t.name: torch.randn(t.shape, generator=maker).to(dtype) for t in layout}


def write_single(folder: Path, tensors: dict[str, torch.Tensor]) -> Path:
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_sharded(folder: Path, *shards: dict[str, torch.Tensor]) -> Path:
    """Shards model-00001-of-0000N.safetensors and their index."""
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(tensors, folder / name)
        weight_map.update(dict.fromkeys(tensors, name))
    write_index(folder, weight_map)
    return folder


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def raw_file(header: Mapping[str, Any] | bytes, data_bytes: int) -> bytes:
    """A safetensors file with any header at all, and `data_bytes` zero bytes after it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


def write_sparse(path: Path, layout: Sequence[ExpectedTensor], dtype: str = "BF16") -> None:
    """A file with a real header and a hole where the weights would be."""
    width = {"BF16": 2, "F16": 2, "F32": 4, "I8": 1}[dtype]
    header: dict[str, Any] = {}
    end = 0
    for tensor in layout:
        begin, end = end, end + torch.Size(tensor.shape).numel() * width
        shape = list(tensor.shape)
        header[tensor.name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    head = raw_file(header, 0)
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) + end)


def rules_of(outcome: Outcome) -> list[str]:
    """The rules of the findings, in the order told."""
    return [finding.rule for finding in outcome.findings]


def status_of(outcome: Outcome) -> dict[str, str]:
    """What became of each rule."""
    return {check.rule: check.status.value for check in outcome.checks}


def make_plan(folder: Path, layout: Sequence[ExpectedTensor]) -> LoadPlan:
    inventory, _ = read_inventory("target", folder)
    assert inventory is not None
    plan, outcome = judge_tensors(inventory, layout, make_reading(make_target(dtype=None)))
    assert plan is not None, outcome.findings
    return plan
