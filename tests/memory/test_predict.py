"""The predicted activation peak, compared with what a real step takes on this machine."""

import pytest
import torch

from server.config.records import BlockDraft
from server.memory import predict as module
from server.memory.facts import DeviceKind, Machine, host_facts
from server.memory.host_source import HostSource
from server.memory.kv_layout import kv_layout
from server.memory.predict import LAYERS, Pair, predict
from server.memory.profile import Models, Workload, run_once
from server.memory.shapes import ATTENTION, RULES
from server.model.steps import StepShape
from tests.memory.make import make_facts
from tests.model.tiny import make_draft, make_drafter, make_dspark, make_target, make_target_config

WIDE = {
    "hidden_size": 128,
    "intermediate_size": 320,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 517,
    "max_position_embeddings": 4096,
}
TARGET = make_target_config(**WIDE)
SHAPES = {
    "a long context": (make_draft(**WIDE), StepShape(300, 3, 5, 1500)),
    "prompts that share a step": (make_dspark(**WIDE), StepShape(700, 2, 6, 200)),
    "many that decode": (None, StepShape(16, 48, 1, 333)),
}


def make_work(draft: BlockDraft | None, shape: StepShape, dtype: torch.dtype) -> Workload:
    return Workload(kv_layout(TARGET, draft, dtype.itemsize, 16), shape)


def measured(draft: BlockDraft | None, work: Workload, dtype: torch.dtype) -> dict[str, int]:
    drafter = make_drafter(draft, dtype, target_hidden=128) if draft else None
    host = HostSource(host_facts(Machine(), "test"), Machine())
    phases = run_once(host, Models(make_target(TARGET, dtype), drafter), work)
    return {phase.phase: phase.views["torch storages"] for phase in phases}


def predicted(
    draft: BlockDraft | None,
    work: Workload,
    dtype: torch.dtype = torch.float32,
    kind: DeviceKind = DeviceKind.CPU,
    layers: int = LAYERS,
) -> dict[str, int]:
    name = str(dtype).removeprefix("torch.")
    phases = predict(make_facts(kind=kind), Pair(TARGET, draft), work, name, layers)
    return {phase.phase: phase.peak_bytes for phase in phases}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_the_prediction_is_what_a_real_step_takes(name: str, dtype: torch.dtype) -> None:
    draft, shape = SHAPES[name]
    work = make_work(draft, shape, dtype)
    real, found = measured(draft, work, dtype), predicted(draft, work, dtype)
    assert found.keys() == real.keys()
    for phase, peak_bytes in real.items():
        assert found[phase] == pytest.approx(peak_bytes, rel=0.05), phase


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", [DeviceKind.CPU, DeviceKind.CUDA])
def test_two_layers_peak_like_all_of_them(name: str, kind: DeviceKind) -> None:
    draft, shape = SHAPES[name]
    work = make_work(draft, shape, torch.float32)
    assert TARGET.num_hidden_layers > LAYERS
    assert predicted(draft, work, kind=kind) == predicted(draft, work, kind=kind, layers=99)


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_are_those_that_torch_works_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, shape = SHAPES[name]
    work = make_work(draft, shape, torch.bfloat16)
    ours = predicted(draft, work, torch.bfloat16)
    # For attention torch would take a kernel without fusion, which no device does here.
    monkeypatch.setattr(module, "RULES", {ATTENTION: RULES[ATTENTION]})
    assert predicted(draft, work, torch.bfloat16) == ours


def test_cuda_makes_the_mask_of_a_long_context_anew() -> None:
    """Where attention is the peak, a mask of 64 rows is added as float32, padded, and a boolean."""
    work = make_work(None, StepShape(64, 1, 1, 4090), torch.float32)
    on_cpu, on_cuda = (
        predicted(None, work, kind=kind)["prefill"] for kind in (DeviceKind.CPU, DeviceKind.CUDA)
    )
    assert on_cuda - on_cpu == pytest.approx(64 * 4090 * (4 + 4 + 1), rel=0.1)
