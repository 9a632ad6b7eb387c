"""A small Qwen3 checkpoint, and edits of its config and its tensors that tell themselves."""

import json
from collections.abc import Callable
from math import floor, log2
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file

from server.weights.layout import target_layout
from tests.weights.make import (
    GEOMETRY,
    make_target,
    make_tensors,
    write_sharded,
    write_single,
)

NAME = "qwen3"
CONFIG, SINGLE = "config.json", "model.safetensors"
EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"

_CONFIG = {
    **GEOMETRY,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 1,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
}
_DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32}
_FIRST_TENSORS = 7  # of 14: the head and the last norm are in the second shard


class Edit(NamedTuple):
    """One change of a checkpoint folder. `told` names the file and what is different in it."""

    told: str
    make: Callable[[Path], None]


def write_checkpoint(folder: Path, sharded: bool) -> None:
    """A Qwen3 target of one layer that passes every rule, in one file or in two shards."""
    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps(_CONFIG))
    tensors = make_tensors(target_layout(make_target(num_hidden_layers=1)))
    if not sharded:
        write_single(folder, tensors)
        return
    pairs = list(tensors.items())
    write_sharded(folder, dict(pairs[:_FIRST_TENSORS]), dict(pairs[_FIRST_TENSORS:]))


def configured(key: str, value: object) -> Edit:
    """config.json has `key` with `value`."""

    def make(folder: Path) -> None:
        config = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**config, key: value}))

    return Edit(f"`{CONFIG}`: `{json.dumps({key: value})[1:-1]}`", make)


def stored(tensor: str, dtype: str) -> Edit:
    """`tensor` is stored as `dtype`, which is the format's name of it."""
    told = f"`{SINGLE}`: `{tensor}` is stored as {dtype}"
    return _tensors(told, lambda held: held.update({tensor: held[tensor].to(_DTYPES[dtype])}))


def shaped(tensor: str, *shape: int) -> Edit:
    """`tensor` has `shape`."""
    told = f"`{SINGLE}`: `{tensor}` has shape {list(shape)}"
    values = torch.ones(shape, dtype=torch.bfloat16)
    return _tensors(told, lambda held: held.update({tensor: values}))


def filled(tensor: str, value: float) -> Edit:
    """Every value of `tensor` is `value`."""
    power = floor(log2(value))
    shown = f"{value / 2**power:g} x 2^{power}" if power > 24 else f"{value:.0f}"
    told = f"`{SINGLE}`: every value of `{tensor}` is {shown}, stored as BF16"
    return _tensors(told, lambda held: held.update({tensor: held[tensor].fill_(value)}))


def without(tensor: str) -> Edit:
    """`tensor` is not there."""
    told = f"`{SINGLE}`: `{tensor}` is not there"
    return _tensors(told, lambda held: held.pop(tensor))


def called(tensor: str, name: str) -> Edit:
    """What is `tensor` in the good checkpoint is there under another name."""
    told = f"`{SINGLE}`: it is `{name}` that holds the head"
    return _tensors(told, lambda held: held.update({name: held.pop(tensor)}))


def _tensors(told: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Edit:
    def make(folder: Path) -> None:
        held = load_file(folder / SINGLE)
        change(held)
        save_file(held, folder / SINGLE)

    return Edit(told, make)
