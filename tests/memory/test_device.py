"""Opening a device, on a machine with and without CUDA (a fake one)."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

import builtins
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from server.memory.device import open_device
from server.memory.facts import DeviceKind
from server.memory.nvml import Tenant
from server.memory.source import others_bytes
from tests.memory.fake_machine import MIB, FakeMachine, fake_gpu, fake_nvml
from tests.memory.make import errors, make_facts, only, rules

UUID = "aaaa-1"


class FakeCuda:
    """The part of torch.cuda that is asked, with figures that a test can change."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.free, self.total = 70 * MIB, 79 * MIB
        self.reserved = self.allocated = self.peak = 0
        self.uuid = UUID
        self.integrated = False
        self.asked: list[str] = []

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers: dict[str, Any] = {
            "is_available": lambda: self.count > 0,
            "device_count": lambda: self.count,
            "set_device": lambda _: None,
            "mem_get_info": lambda _: (self.free, self.total),
            "get_device_properties": lambda _: self.properties(),
            "memory_reserved": lambda _: self.reserved,
            "memory_allocated": lambda _: self.allocated,
            "max_memory_allocated": lambda _: self.peak,
            "reset_peak_memory_stats": lambda _: None,
            "synchronize": lambda _: None,
            "empty_cache": lambda: None,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, partial(self.answer, name, answer))

    def answer(self, name: str, answer: Callable[..., Any], *given: Any) -> Any:
        self.asked.append(name)
        return answer(*given)

    def properties(self) -> SimpleNamespace:
        return SimpleNamespace(name="Fake", uuid=self.uuid, is_integrated=self.integrated)


@pytest.fixture
def host(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    fake.patch(monkeypatch)
    return fake


def nvml(free_mib: int, uuid: str = UUID) -> Any:
    tenants = [(4711, 5 * MIB)]
    return fake_nvml([fake_gpu(f"GPU-{uuid}", 80 * MIB, free_mib * MIB, tenants=tenants)])


def before_cuda(**changes: Any) -> Any:
    facts = {"exact": False, "uuid": f"GPU-{UUID}", "free_bytes": 75 * MIB, "total_bytes": 80 * MIB}
    return make_facts(**{**facts, **changes})


def test_the_host_is_opened_with_fresh_figures(host: FakeMachine) -> None:
    machine = host.machine()
    stale = make_facts(kind=DeviceKind.CPU, total_bytes=1, free_bytes=1, notes=("kept",))
    source, outcome = open_device(stale, machine)
    assert source is not None
    assert outcome.findings == ()
    assert (source.facts.total_bytes, source.free_bytes()) == (1000 * MIB, 800 * MIB)
    assert source.facts.notes == ("kept",)
    assert source.torch_device == torch.device("cpu")
    assert others_bytes(source) == 196 * MIB


def test_an_undecided_device_becomes_the_host_where_torch_sees_no_gpu(
    host: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeCuda(count=0).patch(monkeypatch)
    source, _ = open_device(make_facts(kind=DeviceKind.UNDECIDED), host.machine())
    assert source is not None
    assert source.facts.kind is DeviceKind.CPU
    assert "sees 0 GPUs" in source.facts.reason


def test_an_undecided_device_becomes_cuda_where_torch_sees_one(
    host: FakeMachine, cuda: FakeCuda
) -> None:
    facts = make_facts(kind=DeviceKind.UNDECIDED, total_bytes=None, free_bytes=None, exact=False)
    source, _ = open_device(facts, host.machine())
    assert source is not None
    assert (source.facts.kind, source.facts.reason) == (DeviceKind.CUDA, "torch sees it")
    assert source.facts.total_bytes == 79 * MIB
    assert "CUDA context: not separable, so it is not billed" in source.facts.notes


@pytest.mark.parametrize(("index", "expected"), [(0, []), (1, ["SD601"])])
def test_sd601_an_index_that_torch_does_not_see(
    host: FakeMachine, cuda: FakeCuda, index: int, expected: list[str]
) -> None:
    _, outcome = open_device(before_cuda(index=index), host.machine())
    assert errors(outcome) == expected


def test_cudas_total_is_taken_and_the_context_is_ours(host: FakeMachine, cuda: FakeCuda) -> None:
    before = before_cuda(tenants=(Tenant(4711, 5 * MIB),))
    source, outcome = open_device(before, host.machine(nvml(free_mib=72)))
    assert source is not None
    assert rules(outcome) == []
    facts = source.facts
    assert (facts.total_bytes, facts.free_bytes, facts.own_bytes) == (79 * MIB, 70 * MIB, 3 * MIB)
    assert (facts.exact, facts.name) == (True, "Fake")
    assert facts.notes == ("CUDA context: 3.00 MiB", "total: CUDA 79.00 MiB, NVML 80.00 MiB")
    assert facts.tenants[0].host_pid == 4711


@pytest.mark.parametrize(
    ("before", "after", "others"),
    [
        ([], [os.getpid()], []),
        ([4711], [4711, os.getpid()], [4711]),
        ([], [98, os.getpid()], [98]),
        # In a container NVML gives this process another id: that of the host.
        ([4711], [4711, 99], [4711]),
        ([4711], [99], []),
        # Two came: which of them is ours is not known, and both are told.
        ([], [98, 99], [98, 99]),
    ],
)
def test_this_process_is_not_one_of_the_others(
    host: FakeMachine, cuda: FakeCuda, before: list[int], after: list[int], others: list[int]
) -> None:
    known = tuple(Tenant(pid, MIB) for pid in before)
    gpu = fake_gpu(f"GPU-{UUID}", 80 * MIB, 72 * MIB, tenants=[(pid, MIB) for pid in after])
    source, _ = open_device(before_cuda(tenants=known), host.machine(fake_nvml([gpu])))
    assert source is not None
    assert [tenant.host_pid for tenant in source.facts.tenants] == others


def test_without_figures_of_before_every_other_id_is_told(
    host: FakeMachine, cuda: FakeCuda
) -> None:
    source, _ = open_device(before_cuda(uuid=None), host.machine(nvml(free_mib=72)))
    assert source is not None
    assert [tenant.host_pid for tenant in source.facts.tenants] == [4711]


def test_the_device_is_chosen_before_anything_is_asked_of_it(
    host: FakeMachine, cuda: FakeCuda
) -> None:
    """A context on GPU 0 beside the one that is used costs half a GiB there."""
    open_device(before_cuda(), host.machine())
    assert cuda.asked[:3] == ["is_available", "device_count", "set_device"]


@pytest.mark.parametrize(
    ("integrated", "cuda_free", "free"),
    [(False, 70, 70), (True, 70, 800), (True, 900, 900), (True, 1100, 1000)],
)
def test_the_page_cache_of_memory_that_is_the_hosts_is_free(
    host: FakeMachine, cuda: FakeCuda, integrated: bool, cuda_free: int, free: int
) -> None:
    cuda.integrated, cuda.free, cuda.total = integrated, cuda_free * MIB, 1000 * MIB
    source, _ = open_device(before_cuda(), host.machine())
    assert source is not None
    assert (source.free_bytes(), source.facts.free_bytes) == (free * MIB, free * MIB)


def test_sd602_another_device_drops_nvmls_figures(host: FakeMachine, cuda: FakeCuda) -> None:
    cuda.uuid = "bbbb-2"
    source, outcome = open_device(before_cuda(), host.machine(nvml(free_mib=72)))
    assert source is not None
    assert rules(outcome) == ["SD602"]
    assert only(outcome).message == "CUDA opened bbbb-2, NVML's figures were those of aaaa-1"
    assert not outcome.refused
    assert (source.facts.own_bytes, source.facts.tenants) == (0, ())


def test_a_device_that_cannot_be_opened_is_sd607(
    host: FakeMachine, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise RuntimeError("CUDA error: driver too old\nmore")

    monkeypatch.setattr(torch.cuda, "set_device", fail)
    source, outcome = open_device(before_cuda(), host.machine())
    assert source is None
    assert errors(outcome) == ["SD607"]
    assert only(outcome).message == "cuda:0 cannot be opened: CUDA error: driver too old"
    assert "--device cpu" in only(outcome).fix


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (ImportError("libcudart.so.12: cannot open\nsecond line"), "libcudart.so.12: cannot open"),
        (OSError("bad ELF"), "bad ELF"),
        (RuntimeError("operator already registered"), "RuntimeError: operator already registered"),
        (AttributeError("_C"), "AttributeError: _C"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_sd607(
    broken: Exception, told: str, host: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_torch(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch":
            raise broken
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    source, outcome = open_device(make_facts(kind=DeviceKind.CPU), host.machine())
    assert source is None
    assert errors(outcome) == ["SD607"]
    assert only(outcome).message == f"torch cannot be imported: {told}"
    assert "--device cpu" not in only(outcome).fix


def test_a_folder_that_is_only_named_torch_is_sd607(
    host: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    source, outcome = open_device(make_facts(kind=DeviceKind.CPU), host.machine())
    assert source is None
    assert only(outcome).message.endswith("AttributeError: module 'torch' has no attribute 'empty'")


def test_what_we_use_is_context_reserved_and_what_left_otherwise(
    host: FakeMachine, cuda: FakeCuda
) -> None:
    source, _ = open_device(before_cuda(), host.machine(nvml(free_mib=72)))
    assert source is not None
    assert source.used_by_us_bytes() == 3 * MIB
    cuda.reserved, cuda.free = 20 * MIB, 48 * MIB  # 20 reserved, 2 by kernels that loaded
    assert source.used_by_us_bytes() == 25 * MIB
    cuda.free = 60 * MIB  # a neighbour released memory: nothing of it is ours
    assert source.used_by_us_bytes() == 23 * MIB


def test_the_peak_is_the_allocators_above_its_start(host: FakeMachine, cuda: FakeCuda) -> None:
    source, _ = open_device(before_cuda(), host.machine())
    assert source is not None
    cuda.allocated = 4 * MIB
    with source.peak() as peak:
        cuda.peak = 11 * MIB
    assert peak.growth_bytes == 7 * MIB
    with source.taken() as taken:
        cuda.allocated = 7 * MIB
    assert (taken.allocated_bytes, taken.held_bytes) == (3 * MIB, None)
