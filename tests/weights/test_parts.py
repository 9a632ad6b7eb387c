"""Each rank reads its own part of every tensor: the right numbers, and no others."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from server.weights import pieces
from server.weights.ahead import Ahead, ReadAhead
from server.weights.arena import Arena
from server.weights.layout import draft_layout, target_layout
from server.weights.load import LoadError, load_weights, tensors_in
from server.weights.parts import WHOLE, Share, part_config, part_plan
from tests.weights.make import (
    DSPARK,
    make_draft,
    make_plan,
    make_target,
    make_tensors,
    write_single,
)
from tests.weights.test_load import Counter, same_bytes

# 6 heads of 4, 2 KV heads, 12 columns, 20 tokens of vocabulary.
TARGET, DRAFT = make_target(), make_draft(**{**DSPARK, "markov_rank": 3})


def cut(tensors: Mapping[str, torch.Tensor], rank: int, ranks: int) -> dict[str, torch.Tensor]:
    """The part of one rank, cut out of whole tensors."""
    kv_head = rank * 2 // ranks
    found = {}
    for name, tensor in tensors.items():
        part = tensor
        if "k_proj" in name or "v_proj" in name:
            part = tensor[kv_head * 4 : kv_head * 4 + 8 // min(ranks, 2)]
        elif "o_proj" in name or "down_proj" in name:
            part = tensor.tensor_split(ranks, dim=1)[rank]
        elif "norm" not in name:
            bounds = [len(tensor) * r // ranks for r in range(1, ranks)]
            part = tensor.tensor_split(bounds)[rank]
        found[name] = part.contiguous()
    return found


def write(folder: Path, role: str) -> dict[str, torch.Tensor]:
    """What is to be loaded of the checkpoint that was written."""
    layout = target_layout(TARGET) if role == "target" else draft_layout(DRAFT)
    write_single(folder, tensors := make_tensors(layout))
    return {tensor.name: tensors[tensor.name] for tensor in layout if tensor.loaded}


@pytest.mark.parametrize("piece_bytes", [16, 2**24])
@pytest.mark.parametrize("ranks", [2, 6])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_each_rank_reads_its_part_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, ranks: int, piece_bytes: int
) -> None:
    tensors = write(tmp_path, role)
    layout = target_layout(TARGET) if role == "target" else draft_layout(DRAFT)
    whole, config = make_plan(tmp_path, layout), TARGET if role == "target" else DRAFT
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    read, preadv = [], os.preadv

    def counted(descriptor: int, buffers: list[memoryview], at: int, *flags: int) -> int:
        got = preadv(descriptor, buffers, at, *flags)
        read.append(0 if flags else got)  # with flags it asks whether a byte is in the cache
        return got

    monkeypatch.setattr(os, "preadv", counted)
    for rank in range(ranks):
        plan = part_plan(whole, config, Share(rank, ranks))
        right = cut(tensors, rank, ranks)
        into = {name: torch.zeros_like(part) for name, part in right.items()}
        read.clear()
        load_weights(plan, into, counter := Counter())
        assert all(same_bytes(into[name], right[name]) for name in right)
        needed = sum(part.nbytes for part in right.values())
        assert sum(read) == counter.size_bytes == plan.checkpoint_bytes == needed


@pytest.mark.parametrize("in_place", [True, False])
def test_a_part_is_read_ahead_like_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    tensors = write(tmp_path, "target")
    plan = part_plan(make_plan(tmp_path, target_layout(TARGET)), TARGET, Share(1, 2))
    arena = Arena(plan.entries, 2) if in_place else None
    one = Ahead(plan, arena)
    with ReadAhead([one], cache_bytes=2**20) as reading:
        reading.wait()
    assert reading.read_bytes == plan.checkpoint_bytes
    if arena is None:
        return
    monkeypatch.setattr(os, "preadv", None)  # a read would raise
    into = tensors_in(arena, plan, torch.bfloat16)
    load_weights(plan, into, Counter(), one.held)
    right = cut(tensors, 1, 2)
    assert all(same_bytes(into[name], right[name]) for name in right)


def test_one_rank_reads_the_plan_itself(tmp_path: Path) -> None:
    write(tmp_path, "target")
    plan = make_plan(tmp_path, target_layout(TARGET))
    assert part_plan(plan, TARGET, WHOLE) is plan
    assert part_config(TARGET, WHOLE) is TARGET


def test_a_failing_disk_is_told_with_its_byte_in_a_range_of_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = write(tmp_path, "target")
    plan = part_plan(make_plan(tmp_path, target_layout(TARGET)), TARGET, Share(1, 2))
    name = "model.layers.0.mlp.down_proj.weight"
    entry = next(entry for entry in plan.entries if entry.name == name)
    assert tensors[name].shape == (8, 12)
    last_row = entry.begin + 7 * 24
    preadv = os.preadv

    def ends(descriptor: int, buffers: list[memoryview], at: int, *flags: int) -> int:
        return 0 if at == last_row else preadv(descriptor, buffers, at, *flags)

    monkeypatch.setattr(os, "preadv", ends)
    into = {name: torch.zeros_like(part) for name, part in cut(tensors, 1, 2).items()}
    with pytest.raises(LoadError) as caught:
        load_weights(plan, into, Counter())
    assert caught.value.tensor == name
    assert f"ended at byte {last_row}, the tensor ends at byte {last_row + 12}" in str(caught.value)
