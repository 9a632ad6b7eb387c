"""Which device, and how much memory, before any CUDA context and before torch is imported."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from server.config.rules import finding
from server.findings import Finding, Location, Outcome, outcome_of
from server.memory.host import CGROUP, PROC, read_host, resident_bytes
from server.memory.nvml import LIMIT_S, NvmlDevice, NvmlReading, Tenant, read_nvml
from server.memory.units import bytes_text
from server.memory.visible import VARIABLE, hides_all, visible_devices

_LISTED = 8

_ORDINAL = re.compile("[0-9]{0,3}")

# Without one of these nodes there is no GPU that torch could use: NVIDIA, Tegra, WSL2, ROCm.
_GPU_NODES = ("nvidiactl", "nvmap", "nvhost-ctrl", "dxg", "kfd")


class DeviceKind(StrEnum):
    """Where the server runs. Undecided: only torch can tell whether there is a GPU."""

    CUDA = "cuda"
    CPU = "cpu"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device as far as it is known.

    `free_bytes` is free now, `own_bytes` what this process holds of it already. `exact` says that
    the totals are the ones that limits are computed from (host, or CUDA's own); NVML's total is
    an upper bound of CUDA's. `reason` says why this device was taken.
    """

    kind: DeviceKind
    name: str
    reason: str
    index: int = 0
    total_bytes: int | None = None
    free_bytes: int | None = None
    own_bytes: int = 0
    exact: bool = False
    uuid: str | None = None
    tenants: tuple[Tenant, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The device as it is shown, e.g. "cuda:0 NVIDIA A100-SXM4-80GB"."""
        place = f"{self.kind}:{self.index}" if self.kind is DeviceKind.CUDA else str(self.kind)
        return f"{place} {self.name}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """One line each for the report: why this device, what is odd of it, who else is there."""
        users = (_told_users(self.tenants),) if self.tenants else ()
        return (f"why this device: {self.reason}", *self.notes, *users)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where facts are read. `nvml` stands in for pynvml, which has `nvml_limit_s` to answer.

    `reading`: what NVML has said already. `sharers`: ranks of one model that have the host's
    memory together.
    """

    proc: Path = PROC
    cgroup: Path = CGROUP
    dev: Path = Path("/dev")
    nvml: Any = None
    nvml_limit_s: float = LIMIT_S
    reading: NvmlReading | None = None
    sharers: int = 1

    def has_gpu_node(self) -> bool:
        """True when the kernel offers a GPU of any kind that torch could use."""
        return any((self.dev / node).exists() for node in _GPU_NODES)


def find_device(
    device: str, environ: Mapping[str, str], machine: Machine | None = None
) -> tuple[DeviceFacts | None, Outcome]:
    """The device for `device`: "auto", "cpu", "cuda" or "cuda:N".

    No facts come back only with an error (SD601). NVML that does not answer is a note (SD603).
    """
    machine = machine or Machine()
    kind, _, ordinal = device.partition(":")
    if kind == "cpu":
        return host_facts(machine, "asked for"), outcome_of("SD601", ())
    if kind not in ("auto", "cuda") or not _ORDINAL.fullmatch(ordinal):
        return _absent(device, "it is none of auto, cpu, cuda, cuda:N")
    reading = machine.reading or read_nvml(machine.nvml, machine.nvml_limit_s)
    notes = outcome_of("SD603", _nvml_notes(reading))
    index = int(ordinal or "0")
    facts, why = _cuda(machine, environ, reading, index)
    if facts is None and kind == "auto":
        return host_facts(machine, why), outcome_of("SD601", ()) + notes
    if facts is None:
        absent, outcome = _absent(device, why)
        return absent, outcome + notes
    if kind == "cuda" and facts.kind is DeviceKind.UNDECIDED:
        facts = DeviceFacts(DeviceKind.CUDA, "GPU", "asked for", index, notes=facts.notes)
    return facts, outcome_of("SD601", ()) + notes


def host_facts(machine: Machine, reason: str) -> DeviceFacts:
    """Host memory as a device."""
    host = read_host(machine.proc, machine.cgroup, sharers=machine.sharers)
    return DeviceFacts(
        kind=DeviceKind.CPU,
        name="host memory",
        reason=reason,
        total_bytes=host.total_bytes,
        free_bytes=host.available_bytes,
        own_bytes=resident_bytes(machine.proc),
        exact=True,
        notes=host.notes,
    )


def _cuda(
    machine: Machine, environ: Mapping[str, str], reading: NvmlReading, index: int
) -> tuple[DeviceFacts | None, str]:
    """Facts of the visible GPU number `index`; or None and why there is none."""
    if hides_all(environ):
        return None, f"{VARIABLE} hides every GPU"
    if reading.devices is None:
        return _without_nvml(machine, reading, index)
    visible = visible_devices(environ, reading.devices)
    if index >= len(visible):
        have = f"NVML lists {len(reading.devices)} GPUs, {len(visible)} of them visible"
        asked = environ.get(VARIABLE)
        return None, have if asked is None else f"{have} ({VARIABLE}={asked[:80]})"
    return _gpu_facts(index, visible[index]), ""


def _without_nvml(
    machine: Machine, reading: NvmlReading, index: int
) -> tuple[DeviceFacts | None, str]:
    if not machine.has_gpu_node():
        return None, f"NVML does not answer and {machine.dev} has no GPU node"
    note = f"NVML: unavailable ({reading.reason})"
    return DeviceFacts(DeviceKind.UNDECIDED, "device", note, index, notes=(note,)), ""


def _gpu_facts(index: int, candidates: tuple[NvmlDevice, ...]) -> DeviceFacts:
    """What holds for every candidate: figures are the largest, so that they stay upper bounds."""
    if len(candidates) == 1:
        only = candidates[0]
        return DeviceFacts(
            kind=DeviceKind.CUDA,
            name=only.name,
            reason="NVML lists it",
            index=index,
            total_bytes=only.total_bytes,
            free_bytes=only.free_bytes,
            uuid=None if only.parent else only.uuid,  # CUDA may give a slice its parent's
            tenants=only.tenants or (),
            notes=nvml_notes(only),
        )
    unknown = "which GPU this is, CUDA will say: it orders GPUs by speed, NVML by bus"
    unlisted = "a MIG slice that NVML does not list: the memory figures come from CUDA"
    return DeviceFacts(
        kind=DeviceKind.CUDA,
        name="GPU",
        reason="NVML lists it" if candidates else f"{VARIABLE} names it",
        index=index,
        total_bytes=_largest([c.total_bytes for c in candidates]),
        free_bytes=_largest([c.free_bytes for c in candidates]),
        notes=(unknown if candidates else unlisted,),
    )


def nvml_notes(device: NvmlDevice) -> tuple[str, ...]:
    """What NVML says of a device, and what it does not."""
    notes = []
    if device.parent:
        notes.append(f"a MIG slice of {device.parent}")
    if device.mig:
        notes.append("MIG is on: the memory figures come from CUDA")
    elif device.total_bytes is None:
        notes.append(f"NVML has no memory figures ({device.fault}): they come from CUDA")
    if device.reserved_bytes:
        notes.append(f"the driver keeps {bytes_text(device.reserved_bytes)} of the total")
    if device.tenants is None:
        notes.append("other processes: NVML does not tell")
    return tuple(notes)


def _told_users(tenants: tuple[Tenant, ...]) -> str:
    """The other users of a device, the largest first; many are counted, not listed."""
    known = sum(tenant.used_bytes or 0 for tenant in tenants)
    largest = sorted(tenants, key=lambda tenant: -(tenant.used_bytes or 0))
    told = [f"{tenant.label} {_held(tenant.used_bytes)}" for tenant in largest[:_LISTED]]
    if len(tenants) > _LISTED:
        told.append(f"and {len(tenants) - _LISTED} more")
    count = "1 other process holds" if len(tenants) == 1 else f"{len(tenants)} others hold"
    return f"{count} memory of this device, {bytes_text(known)} as NVML tells: {', '.join(told)}"


def _held(used_bytes: int | None) -> str:
    return "an unknown size" if used_bytes is None else bytes_text(used_bytes)


def _largest(sizes: list[int | None]) -> int | None:
    """The largest size, or None as soon as one is not known."""
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _nvml_notes(reading: NvmlReading) -> tuple[Finding, ...]:
    if reading.devices is not None:
        return ()
    message = f"NVML: unavailable ({reading.reason})"
    return (finding("SD603", message, Location("nvml", value=reading.reason)),)


def _absent(device: str, why: str) -> tuple[None, Outcome]:
    where = Location("device", flag="--device", value=device)
    return None, outcome_of("SD601", (no_device(device, why, where),))


def no_device(device: str, why: str, *where: Location) -> Finding:
    """The refusal of a device that is not there."""
    return finding("SD601", f"device {device} is not usable: {why}", *where)
