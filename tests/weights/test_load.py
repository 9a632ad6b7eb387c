"""Loading: the same bytes as the safetensors package reads, and faults with file and tensor."""

import errno
import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from server.config.tensors import ExpectedTensor
from server.weights import pieces
from server.weights.layout import target_layout
from server.weights.load import LoadError, load_weights
from tests.weights.make import (
    make_plan,
    make_target,
    make_tensors,
    write_sharded,
    write_single,
)

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# Odd sizes, a scalar and an empty tensor: what no model has and the reader must bear.
ODD = tuple(
    ExpectedTensor(name, shape, ())
    for name, shape in {"a": (7, 3), "b": (0, 5), "c": (), "d": (1,), "e": (129, 65)}.items()
)


class Counter:
    """Counts what the loader says it has done."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def advance(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes


def make_destinations(
    layout: Sequence[ExpectedTensor], dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    return {t.name: torch.full(t.shape, 7.0, dtype=dtype) for t in layout if t.loaded}


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    flat = [t.reshape(-1).view(torch.uint8) for t in (left, right)]
    return torch.equal(*flat)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_package_reader(tmp_path: Path, dtype: torch.dtype) -> None:
    write_single(tmp_path, make_tensors(ODD, dtype))
    into = make_destinations(ODD, dtype)
    counter = Counter()
    plan = make_plan(tmp_path, ODD)
    load_weights(plan, into, counter)
    expected = load_file(tmp_path / "model.safetensors")
    assert all(same_bytes(into[name], expected[name]) for name in expected)
    assert counter.size_bytes == plan.checkpoint_bytes


@pytest.mark.parametrize("stored", DTYPES)
@pytest.mark.parametrize("wanted", DTYPES)
def test_converts_as_torch_does(tmp_path: Path, stored: torch.dtype, wanted: torch.dtype) -> None:
    write_single(tmp_path, make_tensors(ODD, stored))
    into = make_destinations(ODD, wanted)
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    expected = load_file(tmp_path / "model.safetensors")
    assert all(same_bytes(into[name], expected[name].to(wanted)) for name in expected)


@pytest.mark.parametrize("piece_bytes", [4, 64, 6000])
@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_pieces_of_any_size_make_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    tensors = make_tensors(ODD)
    write_single(tmp_path, tensors)
    into = make_destinations(ODD, wanted)
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    assert all(same_bytes(into[name], tensors[name].to(wanted)) for name in tensors)


def test_shards_and_tensors_that_stay_on_disk(tmp_path: Path) -> None:
    layout = target_layout(make_target(tie_word_embeddings=True))
    tensors = make_tensors(layout)
    names = list(tensors)
    write_sharded(tmp_path, *({n: tensors[n] for n in names[i::3]} for i in range(3)))
    into = make_destinations(layout, torch.bfloat16)
    load_weights(make_plan(tmp_path, layout), into, Counter())
    assert set(names) - set(into) == {"lm_head.weight"}
    assert all(same_bytes(into[name], tensors[name]) for name in into)


def test_parameters_that_want_gradients_are_filled_too(tmp_path: Path) -> None:
    tensors = make_tensors(ODD)
    write_single(tmp_path, tensors)
    filled = make_destinations(ODD, torch.float32)
    into = {name: torch.nn.Parameter(tensor) for name, tensor in filled.items()}
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    assert torch.equal(into["e"], tensors["e"].float())


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv

    def short(descriptor: int, views: list[memoryview], offset: int, *flags: int) -> int:
        return whole(descriptor, [views[0][:5]], offset, *flags)

    tensors = make_tensors(ODD)
    write_single(tmp_path, tensors)
    monkeypatch.setattr(os, "preadv", short)
    into = make_destinations(ODD, torch.bfloat16)
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    assert all(same_bytes(into[name], tensors[name]) for name in into)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def rewrite(path: Path) -> None:
    """Same size, same bytes, another moment."""
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    """Same size and time, another file."""
    copy, times = path.with_name("copy"), path.stat()
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    copy.rename(path)


@pytest.mark.parametrize("change", [cut, rewrite, replace])
def test_a_file_that_changed_since_its_header_was_read(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    into = make_destinations(ODD, torch.bfloat16)
    change(tmp_path / "model.safetensors")
    with pytest.raises(LoadError, match="changed after its header was read") as caught:
        load_weights(plan, into, Counter())
    assert caught.value.file.name == "model.safetensors"
    assert ("of the same size" in caught.value.message) is (change is not cut)
    assert all(bool((tensor == 7).all()) for tensor in into.values())


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(LoadError, match="is not there"):
        load_weights(plan, make_destinations(ODD, torch.bfloat16), Counter())


def test_a_file_cut_while_it_is_read(tmp_path: Path) -> None:
    """The first bytes are in place when the file is cut: the read ends early, it does not hang."""
    layout = (ExpectedTensor("x", (3, pieces.PIECE_BYTES // 2), ()),)
    write_single(tmp_path, {"x": torch.zeros(layout[0].shape, dtype=torch.bfloat16)})
    plan = make_plan(tmp_path, layout)

    class Cutter(Counter):
        def advance(self, size_bytes: int) -> None:
            super().advance(size_bytes)
            os.truncate(tmp_path / "model.safetensors", 4096)

    with pytest.raises(LoadError):
        load_weights(plan, make_destinations(layout, torch.bfloat16), Cutter())


def fails(descriptor: int, views: list[memoryview], offset: int, *flags: int) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def ends(descriptor: int, views: list[memoryview], offset: int, *flags: int) -> int:
    return 0


@pytest.mark.parametrize(
    ("read", "said"), [(fails, "cannot be read at byte .*Input/output"), (ends, "ended at byte")]
)
def test_storage_that_fails_names_file_and_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[..., int], said: str
) -> None:
    write_single(tmp_path, {"x": torch.ones(4)})
    layout = (ExpectedTensor("x", (4,), ()),)
    plan = make_plan(tmp_path, layout)
    monkeypatch.setattr(os, "preadv", read)
    with pytest.raises(LoadError, match=said) as caught:
        load_weights(plan, make_destinations(layout, torch.float32), Counter())
    assert (caught.value.tensor, caught.value.file.name) == ("x", "model.safetensors")


def test_destinations_must_be_those_of_the_plan(tmp_path: Path) -> None:
    write_single(tmp_path, make_tensors(ODD))
    plan = make_plan(tmp_path, ODD)
    good = make_destinations(ODD, torch.bfloat16)
    without = {name: tensor for name, tensor in good.items() if name != "a"}
    turned = {**good, "a": torch.ones(3, 7, dtype=torch.bfloat16)}
    strided = {**good, "a": torch.ones(3, 7, dtype=torch.bfloat16).T}
    more = {**good, "z": torch.ones(1)}
    for wrong in (without, turned, strided, more):
        with pytest.raises(ValueError, match=r"differ in|planned"):
            load_weights(plan, wrong, Counter())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_a_number_is_not_served(
    tmp_path: Path, dtype: torch.dtype, value: float
) -> None:
    tensors = make_tensors(ODD, dtype)
    tensors["e"][77, 3] = value
    write_single(tmp_path, tensors)
    with pytest.raises(LoadError) as caught:
        load_weights(make_plan(tmp_path, ODD), make_destinations(ODD, dtype), Counter())
    assert caught.value.tensor == "e"
    assert caught.value.message.startswith("holds 1 value not finite as ")


def test_a_number_that_only_the_wanted_dtype_cannot_hold_is_not_served(tmp_path: Path) -> None:
    tensors = make_tensors(ODD, torch.bfloat16)
    tensors["a"][:] = 60000.0  # their sum is past float16's range; each is inside
    write_single(tmp_path, tensors)
    into = make_destinations(ODD, torch.float16)
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    tensors["a"][2, 1] = 70000.0
    write_single(tmp_path, tensors)
    with pytest.raises(LoadError, match="1 value not finite as float16, stored as BF16"):
        load_weights(make_plan(tmp_path, ODD), into, Counter())


def test_more_shards_than_this_process_may_have_open_by_default(tmp_path: Path) -> None:
    layout = [tensor for tensor in target_layout(make_target()) if tensor.loaded]
    write_sharded(tmp_path, *({name: tensor} for name, tensor in make_tensors(layout).items()))
    plan = make_plan(tmp_path, layout)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 4, hard))
    try:
        with pieces.open_files(plan) as descriptors:
            assert len(descriptors) == len(layout) > 9
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
