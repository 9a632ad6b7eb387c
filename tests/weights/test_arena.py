"""One private mapping for all weights: places that do not touch, and no pages before a write."""

from pathlib import Path

import pytest
import torch

from server.memory.host import resident_bytes
from server.memory.host_source import RESIDENT_NOISE_BYTES
from server.weights import arena as arena_module
from server.weights.arena import Arena
from server.weights.entries import TensorEntry
from server.weights.load import load_weights, tensors_in
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD, Counter, same_bytes

MIB = 2**20


def make_entry(name: str, numel: int, begin: int = 0) -> TensorEntry:
    return TensorEntry(name, "BF16", (numel,), Path("x.safetensors"), begin, begin + 2 * numel)


def test_places_are_aligned_and_apart() -> None:
    arena = Arena([make_entry("a", 3), make_entry("b", 0), make_entry("c", 40)], 2)
    for name, size_bytes in {"a": 6, "b": 0, "c": 80}.items():
        assert len(arena.view(name)) == size_bytes
        arena.view(name)[:] = name.encode() * size_bytes
    assert bytes(arena.view("a")) == b"a" * 6
    assert bytes(arena.view("c")) == b"c" * 80
    entries = [make_entry("a", 3), make_entry("c", 40)]
    pointers = [torch.frombuffer(Arena(entries, 2).view(n), dtype=torch.uint8) for n in "ac"]
    assert all(tensor.data_ptr() % 64 == 0 for tensor in pointers)


@pytest.mark.parametrize(
    ("begin", "place"), [(4032, 0), (4033, 64), (4088, 64), (4096, 64), (4097, 0), (8, 0), (63, 0)]
)
def test_a_place_is_not_where_processors_take_it_for_its_source(begin: int, place: int) -> None:
    """That is up to 63 bytes behind it, as far as the last 12 bits tell."""
    arena = Arena([make_entry("a", 100, begin)], 2)
    tensor = torch.frombuffer(arena.view("a"), dtype=torch.uint8)
    assert tensor.data_ptr() % 4096 == place
    assert (tensor.data_ptr() - begin) % 4096 >= 64


def test_an_arena_without_a_weight_is_one() -> None:
    assert len(Arena([make_entry("a", 0)], 4).view("a")) == 0


def test_memory_is_taken_by_the_write_and_given_back_with_the_last_tensor(tmp_path: Path) -> None:
    arena = Arena([make_entry("a", 96 * MIB)], 2)
    before = resident_bytes()
    tensor = torch.frombuffer(arena.view("a"), dtype=torch.bfloat16)
    assert resident_bytes() - before < RESIDENT_NOISE_BYTES
    tensor.fill_(1)
    del arena
    assert abs(resident_bytes() - before - tensor.nbytes) < RESIDENT_NOISE_BYTES
    del tensor
    assert abs(resident_bytes() - before) < RESIDENT_NOISE_BYTES


def test_no_room_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MemoryError, match="bytes for the weights"):
        Arena([make_entry("a", 2**58)], 2)
    assert arena_module.Arena([make_entry("a", 1)], 2)


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_tensors_in_an_arena_are_filled_as_any_others(tmp_path: Path, wanted: torch.dtype) -> None:
    tensors = make_tensors(ODD)
    write_single(tmp_path, tensors)
    plan = make_plan(tmp_path, ODD)
    into = tensors_in(Arena(plan.entries, wanted.itemsize), plan, wanted)
    load_weights(plan, into, Counter())
    assert all(same_bytes(into[name], tensors[name].to(wanted)) for name in tensors)
