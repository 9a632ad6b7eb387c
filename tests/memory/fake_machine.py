"""A /proc tree, a control-group tree and a pynvml module that tests can fill."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from server.memory.facts import Machine

MIB = 2**20


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


class FakeMachine:
    """A host of 1000 MiB with 800 MiB available, no control group, no GPU."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memory(1000, 800)
        write(root / "proc/self/status", "VmSize:\t 4096 kB\nVmData:\t 2048 kB\n")
        self.resident(3, 1)
        (root / "dev").mkdir()

    def memory(self, total_mib: int, available_mib: int) -> None:
        text = f"MemTotal: {total_mib * 1024} kB\nMemAvailable: {available_mib * 1024} kB\n"
        write(self.root / "proc/meminfo", text)

    def resident(self, anon_mib: int, shared_mib: int) -> None:
        text = f"RssAnon:\t{anon_mib * 1024} kB\nRssShmem:\t{shared_mib * 1024} kB\n"
        write(self.root / "proc/self/status", f"VmSize:\t4096 kB\nVmData:\t2048 kB\n{text}")

    def groups(self, lines: str) -> None:
        write(self.root / "proc/self/cgroup", lines)

    def limits(self, label: str, soft: str) -> None:
        write(self.root / "proc/self/limits", f"{label}  {soft}  unlimited  bytes\n")

    def group_file(self, path: str, text: str) -> None:
        write(self.root / "cgroup" / path, text)

    def machine(self, nvml: Any = None) -> Machine:
        return Machine(
            self.root / "proc", self.root / "cgroup", self.root / "dev", nvml or fake_nvml(None)
        )


class NvmlError(Exception):
    """Stands for pynvml.NVMLError."""


def fake_gpu(uuid: str, total: int = 80, free: int = 70, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "name": f"GPU {uuid[-1]}", "total": total, "free": free, **more}


def fake_nvml(gpus: list[dict[str, Any]] | None, failing: Mapping[str, str] | None = None) -> Any:
    """A pynvml module. None: no driver. `failing` maps a function's name to its error."""
    failing = failing or {}

    def call(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            if name in failing:
                raise NvmlError(failing[name])
            return answer(*args, **kwargs)

        return asked

    def init() -> None:
        if gpus is None:
            raise NvmlError("NVML Shared Library Not Found")

    def memory(gpu: dict[str, Any], version: int | None = None) -> Any:
        if version is not None and gpu.get("v1_only"):
            raise NvmlError("Not Supported")
        return SimpleNamespace(total=gpu["total"], free=gpu["free"])

    answers: dict[str, Callable[..., Any]] = {
        "nvmlInit": init,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: len(gpus or ()),
        "nvmlDeviceGetHandleByIndex": lambda index: (gpus or [])[index],
        "nvmlDeviceGetName": lambda gpu: gpu["name"],
        "nvmlDeviceGetUUID": lambda gpu: gpu["uuid"],
        "nvmlDeviceGetMigMode": lambda gpu: (int(gpu.get("mig", False)), 0),
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
            SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.get("tenants", ())
        ],
    }
    functions = {name: call(name, answer) for name, answer in answers.items()}
    return SimpleNamespace(NVMLError=NvmlError, nvmlMemory_v2=33554472, **functions)
