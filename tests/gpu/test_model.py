"""The kernels and copies that only a GPU runs: attention, the loader's ring, the self-test."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from server.model.attention import attend
from server.model.kv import KvPool
from server.model.selftest import self_test
from server.weights import pieces
from server.weights.load import load_weights
from tests.model.tiny import make_draft, make_drafter, make_pool, make_target, make_target_config
from tests.weights.make import make_plan, make_tensors, write_single
from tests.weights.test_load import ODD, Counter

CUDA = "cuda"
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize(("rows", "context"), [(7, 7), (3, 40), (600, 1100)])
def test_attention_agrees_with_the_cpu_in_float64(
    dtype: torch.dtype, rows: int, context: int
) -> None:
    torch.manual_seed(0)
    shapes = ((rows, 8, 64), (context, 2, 64), (context, 2, 64))
    query, key, value = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    expected = attend(query, key, value, causal=True)
    on_gpu = (part.to(CUDA, dtype) for part in (query, key, value))
    got = attend(*on_gpu, causal=True).to("cpu", torch.float64)
    assert float((got - expected).abs().max()) < CLOSE[dtype]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_loaded_bytes_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    """Small slots, so that the ring goes round many times."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 64)
    write_single(tmp_path, make_tensors(ODD))
    stored = load_file(tmp_path / "model.safetensors")
    into = {n: torch.empty(t.shape, dtype=dtype, device=CUDA) for n, t in stored.items()}
    load_weights(make_plan(tmp_path, ODD), into, Counter())
    for name, tensor in stored.items():
        assert torch.equal(into[name].cpu(), tensor.to(dtype))


def test_the_self_test_passes_on_the_device() -> None:
    target = make_target(make_target_config(), torch.float32).to(CUDA)
    drafter = make_drafter(make_draft(), torch.float32).to(CUDA)
    shape = make_pool(target, drafter).shape
    pool = KvPool.allocate(shape, torch.float32, torch.device(CUDA))
    done = self_test(target, drafter, pool, 512)
    assert (done.paged_steps, done.speculative_steps) == (28, 28)
