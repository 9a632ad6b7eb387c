"""Which device is taken, before CUDA and torch."""

from pathlib import Path

import pytest

from server.memory.facts import DeviceFacts, DeviceKind, find_device
from tests.memory.fake_machine import MIB, FakeMachine, fake_gpu, fake_nvml
from tests.memory.make import errors, only, rules

A, B = "GPU-aaaa-1", "GPU-bbbb-2"
TWO = [fake_gpu(A, 80, 70), fake_gpu(B, 24, 24, tenants=[(4711, 5)])]


@pytest.fixture
def host(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def found(
    host: FakeMachine, device: str, gpus: list[dict[str, object]] | None, **environ: str
) -> DeviceFacts:
    facts, outcome = find_device(device, environ, host.machine(fake_nvml(gpus)))
    assert facts is not None
    assert not outcome.refused
    return facts


def test_cpu_is_host_memory_and_asks_no_nvml(host: FakeMachine) -> None:
    facts, outcome = find_device("cpu", {}, host.machine())
    assert facts is not None
    assert (facts.kind, facts.exact, facts.label) == (DeviceKind.CPU, True, "cpu host memory")
    assert facts.total_bytes == 1000 * MIB
    assert facts.free_bytes == 800 * MIB
    assert facts.own_bytes == 4 * MIB
    assert outcome.findings == ()


def test_auto_takes_the_gpu_that_nvml_lists(host: FakeMachine) -> None:
    facts = found(host, "auto", [fake_gpu(A, 80, 70)])
    assert (facts.kind, facts.index, facts.uuid) == (DeviceKind.CUDA, 0, A)
    assert (facts.total_bytes, facts.free_bytes, facts.exact) == (80, 70, False)
    assert facts.label == "cuda:0 GPU 1"


def test_auto_takes_the_host_where_nvml_lists_no_gpu(host: FakeMachine) -> None:
    facts = found(host, "auto", [])
    assert facts.kind is DeviceKind.CPU
    assert facts.reason == "NVML lists 0 GPUs, 0 of them visible"


def test_auto_takes_the_host_where_neither_nvml_nor_the_kernel_has_a_gpu(
    host: FakeMachine,
) -> None:
    facts, outcome = find_device("auto", {}, host.machine())
    assert facts is not None
    assert facts.kind is DeviceKind.CPU
    assert rules(outcome) == ["SD603"]
    assert only(outcome).message == "NVML: unavailable (NVML Shared Library Not Found)"
    assert only(outcome).locations[0].value == "NVML Shared Library Not Found"


@pytest.mark.parametrize("node", ["nvidiactl", "nvmap", "dxg", "kfd"])
def test_auto_leaves_it_to_torch_where_only_the_kernel_has_a_gpu(
    host: FakeMachine, node: str
) -> None:
    (host.root / "dev" / node).touch()
    facts = found(host, "auto", None)
    assert facts.kind is DeviceKind.UNDECIDED
    assert facts.total_bytes is None


def test_cuda_without_nvml_is_believed_until_torch_says_otherwise(host: FakeMachine) -> None:
    (host.root / "dev/nvidiactl").touch()
    facts = found(host, "cuda:1", None)
    assert (facts.kind, facts.index, facts.total_bytes) == (DeviceKind.CUDA, 1, None)


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_cuda_without_a_gpu_is_refused(host: FakeMachine, device: str) -> None:
    facts, outcome = find_device(device, {}, host.machine())
    assert facts is None
    assert errors(outcome) == ["SD601"]
    assert outcome.findings[0].exit_code == 69


def test_cuda_2_of_two_gpus_is_refused_and_cuda_1_is_not(host: FakeMachine) -> None:
    facts, outcome = find_device("cuda:2", {}, host.machine(fake_nvml(TWO)))
    assert facts is None
    assert "NVML lists 2 GPUs, 2 of them visible" in only(outcome).message
    assert found(host, "cuda:1", TWO).index == 1


@pytest.mark.parametrize("device", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:" + "9" * 5000])
def test_other_names_are_refused_except_an_empty_number(host: FakeMachine, device: str) -> None:
    facts, outcome = find_device(device, {}, host.machine(fake_nvml(TWO)))
    assert (facts is None) == (device != "cuda:")
    assert errors(outcome) == ([] if device == "cuda:" else ["SD601"])


@pytest.mark.parametrize("value", ["", "-1", "-1,0", "NoDevFiles"])
def test_a_variable_that_hides_every_gpu_leaves_the_host(host: FakeMachine, value: str) -> None:
    facts = found(host, "auto", TWO, CUDA_VISIBLE_DEVICES=value)
    assert facts.kind is DeviceKind.CPU
    assert facts.reason == "CUDA_VISIBLE_DEVICES hides every GPU"
    refused, outcome = find_device(
        "cuda", {"CUDA_VISIBLE_DEVICES": value}, host.machine(fake_nvml(TWO))
    )
    assert refused is None
    assert errors(outcome) == ["SD601"]


@pytest.mark.parametrize(
    ("value", "uuid"), [(B, B), ("GPU-bbbb", B), ("GPU-b", B), (A, A), (f" {B} ,{A}", B)]
)
def test_full_and_short_uuids_name_one_gpu(host: FakeMachine, value: str, uuid: str) -> None:
    assert found(host, "cuda", TWO, CUDA_VISIBLE_DEVICES=value).uuid == uuid


def test_an_index_names_one_gpu_only_in_bus_order(host: FakeMachine) -> None:
    both = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    exact = found(host, "cuda", TWO, **both)
    assert (exact.uuid, exact.total_bytes) == (B, 24)
    assert exact.tenants[0].host_pid == 4711
    fastest_first = found(host, "cuda", TWO, CUDA_VISIBLE_DEVICES="1")
    assert fastest_first.uuid is None
    assert (fastest_first.total_bytes, fastest_first.free_bytes) == (80, 70)


@pytest.mark.parametrize("value", ["2", "GPU-c", "GPU-", "nonsense", "99999999999999999999"])
def test_an_invalid_entry_hides_itself_and_all_later_ones(host: FakeMachine, value: str) -> None:
    machine = host.machine(fake_nvml(TWO))
    facts, outcome = find_device("cuda", {"CUDA_VISIBLE_DEVICES": f"{value},0"}, machine)
    assert facts is None
    assert "NVML lists 2 GPUs, 0 of them visible" in outcome.findings[0].message
    assert found(host, "cuda", TWO, CUDA_VISIBLE_DEVICES=f"0,{value}").kind is DeviceKind.CUDA


def test_a_mig_slice_has_no_figures_before_cuda(host: FakeMachine) -> None:
    facts = found(host, "cuda", TWO, CUDA_VISIBLE_DEVICES="MIG-1234")
    assert (facts.kind, facts.total_bytes, facts.free_bytes) == (DeviceKind.CUDA, None, None)
    parent = found(host, "cuda", [fake_gpu(A, mig=True)])
    assert parent.total_bytes is None
    assert parent.notes == ("MIG is on: the memory figures come from CUDA",)
