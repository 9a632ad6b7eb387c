"""What NVML says of the GPUs: identity, memory, other users. It opens no CUDA context.

Every failure is an answer ("unavailable", with the reason), never an exception: NVML is missing
or without memory figures on several machines whose CUDA works (GB10, Jetson, WSL2). Figures that
cannot be true are left out like those that are not given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from threading import Event, Thread
from typing import Any, TypeVar

from server.limits import pass_on_limit

Value = TypeVar("Value")

# NVML takes seconds where it has to wake many GPUs; without it a boot goes on with less to tell.
LIMIT_S = 10.0

# Set while a question is not answered. A thread is not there after a fork, but this is.
_ASKING = Event()
_MOST_GPUS = 256
_MOST_SLICES = 16
_MOST_BYTES = 2**50
_LARGEST_PID = 2**22  # Linux gives no higher one
_MIG_ON = 1


@dataclass(frozen=True, slots=True)
class Tenant:
    """A process that holds memory of a GPU. The id is the host's, also inside a container.

    None where the driver does not tell, or tells what no process can be.
    """

    host_pid: int | None
    used_bytes: int | None

    @property
    def label(self) -> str:
        """The process as it is named: never to be looked for in this container."""
        return "host pid not told" if self.host_pid is None else f"host pid {self.host_pid}"


@dataclass(frozen=True, slots=True)
class NvmlDevice:
    """One GPU in NVML's order (PCI bus), or a MIG slice of it. What NVML does not give is None.

    A GPU in MIG mode has no figures of its own: those of the whole card say nothing about a
    slice. `reserved_bytes`: what the driver keeps, where NVML tells it apart. `parent` names the
    GPU of a slice. `fault` says why there are no memory figures.
    """

    index: int
    name: str
    uuid: str | None
    total_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    tenants: tuple[Tenant, ...] | None = None
    mig: bool = False
    slices: tuple["NvmlDevice", ...] = ()
    parent: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """All GPUs, or None and the reason why NVML did not answer."""

    devices: tuple[NvmlDevice, ...] | None
    reason: str = ""


def read_nvml(module: Any = None, limit_s: float = LIMIT_S) -> NvmlReading:  # noqa: ANN401  (a module without types)
    """Ask NVML for every GPU, and wait at most `limit_s`. `module` stands in for pynvml.

    What was not answered in time is not asked again, neither here nor by a process forked from
    this one: its library may be held by a thread that is not there.
    """
    try:
        module = module or import_module("pynvml")
    except ImportError as error:
        return NvmlReading(None, f"the nvidia-ml-py package is missing ({error})")
    except Exception as error:  # whatever a broken install raises
        pass_on_limit(error)
        return NvmlReading(None, _told(error))
    if _ASKING.is_set():
        return NvmlReading(None, "an earlier question is not answered yet")
    found: list[NvmlReading] = []

    def ask() -> None:
        try:
            found.append(_read(module))
        finally:
            _ASKING.clear()

    asking = Thread(target=ask, name="NVML", daemon=True)
    _ASKING.set()
    try:
        asking.start()
    except RuntimeError:  # no thread can be started: nothing was asked
        _ASKING.clear()
        raise
    asking.join(limit_s)
    return found[0] if found else NvmlReading(None, f"no answer in {limit_s:g} s")


def _read(nvml: Any) -> NvmlReading:  # noqa: ANN401
    try:
        nvml.nvmlInit()
    except Exception as error:  # NVMLError, and what a package that is not pynvml raises
        return NvmlReading(None, _told(error))
    try:
        count = nvml.nvmlDeviceGetCount()
        if count > _MOST_GPUS:
            return NvmlReading(None, f"it counts {count} GPUs")
        return NvmlReading(tuple(_device(nvml, index) for index in range(count)))
    except Exception as error:
        return NvmlReading(None, _told(error))
    finally:
        _ask(lambda: nvml.nvmlShutdown(), None)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _device(nvml: Any, index: int) -> NvmlDevice:  # noqa: ANN401
    """One GPU. One without a handle (lost, or not ours to ask) does not hide the others."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        return NvmlDevice(index, f"GPU {index}", None, fault=_told(error))
    known = _named(nvml, handle, index)
    if _ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0], 0) != _MIG_ON:
        return _measured(nvml, handle, known)
    slices = tuple(_slices(nvml, handle, known))
    return replace(known, mig=True, slices=slices, tenants=_tenants(nvml, handle))


def _slices(nvml: Any, handle: Any, parent: NvmlDevice) -> Iterator[NvmlDevice]:  # noqa: ANN401
    """The MIG slices of a GPU, as far as this process may see them."""
    most = _ask(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle), 0)
    told = " ".join(filter(None, (parent.name, parent.uuid)))
    for number in range(min(most, _MOST_SLICES)):
        part = _ask(partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number), None)
        if part is not None:
            known = replace(_named(nvml, part, parent.index), parent=told)
            yield _measured(nvml, part, known)


def _named(nvml: Any, handle: Any, index: int) -> NvmlDevice:  # noqa: ANN401
    name = _ask(lambda: _text(nvml.nvmlDeviceGetName(handle)), "")
    uuid = _ask(lambda: _text(nvml.nvmlDeviceGetUUID(handle)), "")
    return NvmlDevice(index, name or "unnamed GPU", uuid or None)


def _measured(nvml: Any, handle: Any, known: NvmlDevice) -> NvmlDevice:  # noqa: ANN401
    """`known` with its memory, or why there are no figures, and with its users.

    Only `total`, `free` and `reserved` are read: what `used` contains differs between versions.
    """
    known = replace(known, tenants=_tenants(nvml, handle))
    fault = ""
    for version in (getattr(nvml, "nvmlMemory_v2", None), None):
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=version)
        except Exception as error:
            fault = _told(error)
            continue
        total, free = int(memory.total), int(memory.free)
        if not (0 < total < _MOST_BYTES and free <= total):
            fault = f"it says {total} bytes in all, {free} of them free"
            continue
        reserved = getattr(memory, "reserved", None)
        if reserved is not None and reserved > total - free:
            reserved = None
        return replace(known, total_bytes=total, free_bytes=free, reserved_bytes=reserved)
    return replace(known, fault=fault)


def _tenants(nvml: Any, handle: Any) -> tuple[Tenant, ...] | None:  # noqa: ANN401
    """The users of a GPU; None where NVML does not tell. Drivers before 510 know `_v2` alone."""
    for name in ("", "_v2"):
        ask = getattr(nvml, f"nvmlDeviceGetComputeRunningProcesses{name}", None)
        entries = _ask(partial(ask, handle), None) if ask else None
        if entries is not None:
            return tuple(_tenant(entry) for entry in entries)
    return None


def _tenant(entry: Any) -> Tenant:  # noqa: ANN401
    pid, used = entry.pid, entry.usedGpuMemory
    return Tenant(
        host_pid=pid if 0 < pid <= _LARGEST_PID else None,
        used_bytes=used if used is not None and used < _MOST_BYTES else None,
    )


def _ask(question: Callable[[], Value], otherwise: Value) -> Value:
    """The answer, or `otherwise` where there is none.

    Beside NVMLError, pynvml raises UnicodeDecodeError for a name, and an error of its own for a
    driver that lacks a function.
    """
    try:
        return question()
    except Exception:
        return otherwise


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
