"""What NVML says of the GPUs: identity, memory, other users. It opens no CUDA context.

Every failure is an answer ("unavailable", with the reason), never an exception: NVML is missing
or without memory figures on several machines whose CUDA works (GB10, Jetson, WSL2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A process that holds memory of a GPU. The id is the host's, also inside a container."""

    host_pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """One GPU in NVML's order (PCI bus). Figures that NVML does not give are None.

    A GPU in MIG mode has no figures here: those of the whole card say nothing about a slice.
    """

    index: int
    name: str
    uuid: str | None
    total_bytes: int | None = None
    free_bytes: int | None = None
    tenants: tuple[Tenant, ...] = ()
    mig: bool = False


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """All GPUs, or None and the reason why NVML did not answer."""

    devices: tuple[NvmlDevice, ...] | None
    reason: str = ""


def read_nvml(module: Any = None) -> NvmlReading:  # noqa: ANN401  (a module without types)
    """Ask NVML for every GPU. `module` stands in for pynvml."""
    try:
        module = module or import_module("pynvml")
    except ImportError as error:
        return NvmlReading(None, f"the nvidia-ml-py package is missing ({error})")
    except Exception as error:  # whatever a broken install raises
        return NvmlReading(None, _told(error))
    try:
        return _read(module)
    except Exception as error:  # NVMLError, and what a package that is not pynvml raises
        return NvmlReading(None, _told(error))


def _read(nvml: Any) -> NvmlReading:  # noqa: ANN401
    nvml.nvmlInit()
    try:
        return NvmlReading(tuple(_device(nvml, n) for n in range(nvml.nvmlDeviceGetCount())))
    finally:
        _ask(nvml, nvml.nvmlShutdown, None)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _device(nvml: Any, index: int) -> NvmlDevice:  # noqa: ANN401
    """One GPU. Raises NVMLError when there is no handle for it."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = _text(_ask(nvml, lambda: nvml.nvmlDeviceGetName(handle), "unnamed GPU"))
    uuid = _ask(nvml, lambda: nvml.nvmlDeviceGetUUID(handle), None)
    mig = bool(_ask(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle), (0, 0))[0])
    memory = None if mig else _memory(nvml, handle)
    return NvmlDevice(
        index=index,
        name=name,
        uuid=None if uuid is None else _text(uuid),
        total_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        tenants=_tenants(nvml, handle),
        mig=mig,
    )


def _memory(nvml: Any, handle: Any) -> Any:  # noqa: ANN401
    """The second version of the memory figures, else the first, else None.

    Only `total` and `free` are read from it: what `used` contains differs between versions.
    """
    second = getattr(nvml, "nvmlMemory_v2", None)
    read = nvml.nvmlDeviceGetMemoryInfo
    found = None
    if second is not None:
        found = _ask(nvml, lambda: read(handle, version=second), None)
    return found or _ask(nvml, lambda: read(handle), None)


def _tenants(nvml: Any, handle: Any) -> tuple[Tenant, ...]:  # noqa: ANN401
    nobody: list[Any] = []
    processes = _ask(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), nobody)
    return tuple(Tenant(int(entry.pid), entry.usedGpuMemory) for entry in processes)


def _ask(nvml: Any, question: Callable[[], Value], otherwise: Value) -> Value:  # noqa: ANN401
    """The answer, or `otherwise` when NVML declines."""
    try:
        return question()
    except nvml.NVMLError:
        return otherwise


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
