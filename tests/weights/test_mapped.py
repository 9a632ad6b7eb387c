"""Weights as views of their files: the same values, no copy, and the same checks."""

import os
from pathlib import Path

import pytest
import torch

from server.memory.host import file_bytes, resident_bytes
from server.memory.host_source import RESIDENT_NOISE_BYTES
from server.weights.layout import ExpectedTensor
from server.weights.load import LoadError, NotFiniteError, load_weights
from server.weights.mapped import map_tensors
from server.weights.pieces import Held
from tests.weights.make import INDEX, make_plan, make_tensors, raw_file, write_single
from tests.weights.test_load import DTYPES, ODD, Counter, same_bytes

EVERYTHING = Held(mapped=True)
MIB = 2**20


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_have_the_values_of_the_file(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = make_tensors(ODD, dtype)
    write_single(tmp_path, tensors)
    plan = make_plan(tmp_path, ODD)
    views = map_tensors(plan)
    load_weights(plan, views, counter := Counter(), EVERYTHING)
    assert all(same_bytes(views[name], tensors[name]) for name in tensors)
    assert counter.size_bytes == plan.checkpoint_bytes
    assert not (tmp_path / INDEX).exists()


def test_nothing_is_copied(tmp_path: Path) -> None:
    layout = (ExpectedTensor("x", (96, MIB), ()),)
    write_single(tmp_path, {"x": torch.ones(96, MIB, dtype=torch.bfloat16)})
    plan = make_plan(tmp_path, layout)
    private, files = resident_bytes(), file_bytes()
    views = map_tensors(plan)
    load_weights(plan, views, Counter(), EVERYTHING)
    assert resident_bytes() - private < RESIDENT_NOISE_BYTES
    assert file_bytes() - files > views["x"].nbytes - RESIDENT_NOISE_BYTES


def test_what_is_not_a_number_is_not_served(tmp_path: Path) -> None:
    tensors = make_tensors(ODD)
    tensors["e"][5, 5] = float("inf")
    write_single(tmp_path, tensors)
    plan = make_plan(tmp_path, ODD)
    with pytest.raises(NotFiniteError, match="holds 1 value not finite"):
        load_weights(plan, map_tensors(plan), Counter(), EVERYTHING)


def test_a_file_that_changed_is_not_mapped(tmp_path: Path) -> None:
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    os.truncate(tmp_path / "model.safetensors", 50)
    with pytest.raises(LoadError, match="changed after its header was read"):
        map_tensors(plan)


@pytest.mark.parametrize("pad", [0, 1])
def test_an_odd_start_of_the_data_is_borne(tmp_path: Path, pad: int) -> None:
    header = b'{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
    header += b" " * (-len(header) % 8 + pad)
    values = torch.tensor([1.0, -2.0, 3.5])
    written = raw_file(header, 0) + bytes(values.view(torch.uint8).tolist())
    (tmp_path / "model.safetensors").write_bytes(written)
    plan = make_plan(tmp_path, (ExpectedTensor("x", (3,), ()),))
    assert torch.equal(map_tensors(plan)["x"], values)
