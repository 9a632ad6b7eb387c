"""The safetensors package has the last word on a file before it is read."""

from dataclasses import replace
from pathlib import Path

import torch

from server.config.tensors import ExpectedTensor
from server.weights.second_opinion import disagreements
from tests.weights.make import make_plan, write_single

LAYOUT = (ExpectedTensor("x", (2, 3), ()), ExpectedTensor("y", (4,), ()))


def make(folder: Path, prefix: str = "") -> Path:
    tensors = {f"{prefix}x": torch.ones(2, 3), f"{prefix}y": torch.ones(4)}
    write_single(folder, tensors)
    return folder / "model.safetensors"


def test_the_same_file_is_seen_alike(tmp_path: Path) -> None:
    make(tmp_path)
    assert list(disagreements(make_plan(tmp_path, LAYOUT))) == []


def test_names_with_the_export_prefix_are_seen_alike(tmp_path: Path) -> None:
    make(tmp_path, "model.")
    assert list(disagreements(make_plan(tmp_path, LAYOUT))) == []


def test_another_shape_or_dtype_or_name_is_told(tmp_path: Path) -> None:
    make(tmp_path)
    plan = make_plan(tmp_path, LAYOUT)
    x, y = plan.entries
    others = (x._replace(shape=(3, 2)), x._replace(dtype="F64"), x._replace(name="z"))
    for other in others:
        told = list(disagreements(replace(plan, entries=(other, y))))
        assert [entry for entry, _ in told] == [other]


def test_a_file_that_the_package_refuses_is_told(tmp_path: Path) -> None:
    path = make(tmp_path)
    plan = make_plan(tmp_path, LAYOUT)
    path.write_bytes(path.read_bytes()[:-1])
    ((entry, said),) = disagreements(plan)
    assert entry == plan.entries[0]
    assert said
