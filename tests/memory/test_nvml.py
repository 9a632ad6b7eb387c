"""NVML: every failure is an answer."""

import subprocess
import sys
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from server.memory.nvml import Tenant, read_nvml
from tests.memory.fake_machine import fake_gpu, fake_nvml

A, B = "GPU-aaaa-1", "GPU-bbbb-2"


def test_a_missing_driver_is_a_reason() -> None:
    found = read_nvml(fake_nvml(None))
    assert found.devices is None
    assert found.reason == "NVML Shared Library Not Found"


def test_a_missing_package_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = read_nvml()
    assert found.devices is None
    assert found.reason.startswith("the nvidia-ml-py package is missing (")


@pytest.mark.parametrize("code", ["raise OSError('no library')", "raise RuntimeError", ""])
def test_a_package_that_is_not_pynvml_is_a_reason(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    found = read_nvml()
    sys.modules.pop("pynvml", None)
    assert found.devices is None
    assert found.reason in {"no library", "RuntimeError"} or "nvmlInit" in found.reason


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount"])
def test_what_nvml_does_not_promise_to_raise_is_a_reason(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("the driver's library vanished")

    module = fake_nvml([fake_gpu(A)])
    monkeypatch.setattr(module, name, fail)
    found = read_nvml(module)
    assert (found.devices, found.reason) == (None, "the driver's library vanished")


def test_every_gpu_is_read_with_its_tenants() -> None:
    gpus = [fake_gpu(A, 80, 70, tenants=[(4711, 5), (4712, None)]), fake_gpu(B, 24, 24)]
    found = read_nvml(fake_nvml(gpus)).devices
    assert found is not None
    assert [(d.index, d.uuid, d.total_bytes, d.free_bytes) for d in found] == [
        (0, A, 80, 70),
        (1, B, 24, 24),
    ]
    assert found[0].tenants == (Tenant(4711, 5), Tenant(4712, None))


def test_no_count_means_no_nvml() -> None:
    failing = {"nvmlDeviceGetCount": "Insufficient Permissions"}
    found = read_nvml(fake_nvml([fake_gpu(A)], failing))
    assert found.devices is None
    assert found.reason == "Insufficient Permissions"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvmlDeviceGetName", ("unnamed GPU", A, 80)),
        ("nvmlDeviceGetUUID", ("GPU 1", None, 80)),
        ("nvmlDeviceGetMigMode", ("GPU 1", A, 80)),
        ("nvmlDeviceGetMemoryInfo", ("GPU 1", A, None)),
        ("nvmlDeviceGetComputeRunningProcesses", ("GPU 1", A, 80)),
        ("nvmlShutdown", ("GPU 1", A, 80)),
    ],
)
def test_a_figure_that_nvml_declines_is_missing_alone(
    name: str, expected: tuple[str, str | None, int | None]
) -> None:
    found = read_nvml(fake_nvml([fake_gpu(A)], {name: "Not Supported"})).devices
    assert found is not None
    assert (found[0].name, found[0].uuid, found[0].total_bytes) == expected


def test_the_first_memory_figures_are_taken_where_the_second_are_not_supported() -> None:
    found = read_nvml(fake_nvml([fake_gpu(A, v1_only=True)])).devices
    assert found is not None
    assert found[0].total_bytes == 80


def test_a_gpu_in_mig_mode_has_no_figures() -> None:
    found = read_nvml(fake_nvml([fake_gpu(A, mig=True)])).devices
    assert found is not None
    assert (found[0].mig, found[0].total_bytes, found[0].free_bytes) == (True, None, None)


def test_names_in_bytes_are_decoded() -> None:
    found = read_nvml(fake_nvml([fake_gpu(A, name=b"Tesla")])).devices
    assert found is not None
    assert found[0].name == "Tesla"


_FORKED = """
import os
from threading import Event
from types import SimpleNamespace
from server.memory.nvml import read_nvml

hanging = SimpleNamespace(nvmlInit=Event().wait)
print(read_nvml(hanging, 0.1).reason, flush=True)
if os.fork() == 0:
    print(read_nvml(hanging, 0.5).reason, flush=True)
    os._exit(0)
os.wait()
os._exit(0)
"""


def test_a_forked_rank_does_not_ask_what_its_launcher_was_not_answered() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "no answer in 0.1 s",
        "an earlier question is not answered yet",
    ]


def test_what_is_answered_late_can_be_asked_again() -> None:
    late, module = Event(), fake_nvml([fake_gpu(A)])
    module.nvmlInit = late.wait
    assert read_nvml(module, 0.1).reason == "no answer in 0.1 s"
    late.set()
    for thread in enumerate_threads():
        if thread.name == "NVML":
            thread.join()
    assert read_nvml(module).devices is not None
