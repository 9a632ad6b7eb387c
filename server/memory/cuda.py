"""A CUDA device as a memory source. Total and free come from CUDA; NVML is information only.

The fraction is of CUDA's total, which is 0.4 to 0.9 GiB below NVML's on usual cards.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch

from server.config.rules import finding
from server.findings import Location, Outcome, outcome_of
from server.memory.facts import DeviceFacts, DeviceKind, Machine, nvml_notes
from server.memory.host import read_host
from server.memory.nvml import NvmlDevice, Tenant, read_nvml
from server.memory.source import Peak, Taken
from server.memory.units import bytes_text


class CudaSource:
    """One CUDA device with its context open.

    `facts.own_bytes` is what the context cost, as far as NVML could tell. `host` is given where
    the device's memory is the host's.
    """

    noise_bytes = 0  # the driver counts exactly

    def __init__(self, facts: DeviceFacts, host: Machine | None = None) -> None:
        """Take the current figures as the start. Raises torch's errors."""
        self.facts = facts
        self._host = host
        self.torch_device = torch.device("cuda", facts.index)
        self._start_free_bytes = self.free_bytes()
        self._start_reserved_bytes = torch.cuda.memory_reserved(self.torch_device)

    def free_bytes(self) -> int:
        """CUDA's free memory now; of memory that is the host's, what is available there.

        CUDA counts the page cache as used, which reading the weights fills and the kernel gives
        back (vllm-project/vllm issue 35920).
        """
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.torch_device)
        if self._host is None:
            return int(free_bytes)
        available_bytes = read_host(self._host.proc, self._host.cgroup).available_bytes
        return min(int(total_bytes), max(int(free_bytes), available_bytes))

    def used_by_us_bytes(self) -> int:
        """Torch's reserved memory, the context, and what left the free memory otherwise.

        CUDA does not say whose the last part is; when others move, it is charged to us or
        clamped at 0.
        """
        reserved = torch.cuda.memory_reserved(self.torch_device)
        left = self._start_free_bytes - self.free_bytes()
        other = max(0, left - (reserved - self._start_reserved_bytes))
        return self.facts.own_bytes + other + reserved

    @contextmanager
    def taken(self) -> Iterator[Taken]:
        """The growth of what torch's allocator has handed out, rounded up as it rounds."""
        found = Taken()
        start_bytes = torch.cuda.memory_allocated(self.torch_device)
        yield found
        found.allocated_bytes = torch.cuda.memory_allocated(self.torch_device) - start_bytes

    def settle(self) -> None:
        """Collect garbage and give torch's cached memory back."""
        gc.collect()
        torch.cuda.synchronize(self.torch_device)
        torch.cuda.empty_cache()

    def guard(self) -> AbstractContextManager[None]:
        """Nothing to do: CUDA refuses what it does not have."""
        return nullcontext()

    @contextmanager
    def peak(self) -> Iterator[Peak]:
        """The allocator's peak above its start."""
        found = Peak()
        torch.cuda.synchronize(self.torch_device)
        torch.cuda.reset_peak_memory_stats(self.torch_device)
        start_bytes = torch.cuda.memory_allocated(self.torch_device)
        yield found
        torch.cuda.synchronize(self.torch_device)
        peak_bytes = torch.cuda.max_memory_allocated(self.torch_device)
        found.views["CUDA allocator"] = peak_bytes - start_bytes


def open_cuda(facts: DeviceFacts, machine: Machine) -> tuple[CudaSource, Outcome]:
    """Open the context on device `facts.index`, and compare its identity with NVML's.

    Raises RuntimeError (torch's, also when the device has no room for a context).
    """
    torch.cuda.set_device(facts.index)
    total_bytes = int(torch.cuda.mem_get_info(facts.index)[1])
    properties = torch.cuda.get_device_properties(facts.index)
    host = machine if getattr(properties, "is_integrated", False) else None
    uuid = _bare(str(getattr(properties, "uuid", "")))
    nvml = _same_device(machine, uuid)
    outcome = _identity(facts, uuid, properties.name)
    context_bytes = 0 if outcome.findings else _context_bytes(facts, nvml)
    opened = replace(
        facts,
        kind=DeviceKind.CUDA,
        name=properties.name,
        total_bytes=total_bytes,
        own_bytes=context_bytes,
        exact=True,
        uuid=uuid or None,
        tenants=_others(facts, nvml),
        notes=tuple(dict.fromkeys((*facts.notes, *_notes(nvml, total_bytes, context_bytes)))),
    )
    source = CudaSource(opened, host)
    source.facts = replace(opened, free_bytes=source.free_bytes())
    return source, outcome


def _same_device(machine: Machine, uuid: str) -> NvmlDevice | None:
    """NVML's entry for the device that CUDA opened."""
    devices = read_nvml(machine.nvml, machine.nvml_limit_s).devices or ()
    known = (*devices, *(part for device in devices for part in device.slices))
    return next((d for d in known if uuid and _bare(d.uuid or "") == uuid), None)


def _others(before: DeviceFacts, nvml: NvmlDevice | None) -> tuple[Tenant, ...]:
    """The other users of the device: not this process, whose context is open by now.

    NVML gives the host's process ids. In a container ours is another one there, and is known as
    the only one that came with the context.
    """
    users = (nvml.tenants if nvml else None) or ()
    known = {tenant.host_pid for tenant in before.tenants}
    came = [tenant.host_pid for tenant in users if tenant.host_pid not in known]
    ours = {os.getpid(), *(came if before.uuid and len(came) == 1 else ())}
    return tuple(tenant for tenant in users if tenant.host_pid not in ours)


def _identity(facts: DeviceFacts, uuid: str, name: str) -> Outcome:
    """SD602: NVML's figures before the context were those of another device."""
    expected = _bare(facts.uuid or "")
    if not uuid or not expected or uuid == expected:
        return outcome_of("SD602", ())
    message = f"CUDA opened {uuid}, NVML's figures were those of {expected}"
    where = (
        Location("CUDA", value=uuid, source=name),
        Location("NVML", value=expected, source=facts.name),
    )
    return outcome_of("SD602", (finding("SD602", message, *where),))


def _context_bytes(facts: DeviceFacts, nvml: NvmlDevice | None) -> int:
    """What the context took, by NVML's free memory before and after; 0 when it is not known."""
    if facts.free_bytes is None or facts.uuid is None or nvml is None or nvml.free_bytes is None:
        return 0
    return max(0, facts.free_bytes - nvml.free_bytes)


def _notes(nvml: NvmlDevice | None, total_bytes: int, context_bytes: int) -> tuple[str, ...]:
    context = (
        f"CUDA context: {bytes_text(context_bytes)}"
        if context_bytes
        else "CUDA context: not separable, so it is not billed"
    )
    if nvml is None:
        return (context,)
    if nvml.total_bytes is None:
        return (context, *nvml_notes(nvml))
    totals = f"total: CUDA {bytes_text(total_bytes)}, NVML {bytes_text(nvml.total_bytes)}"
    return (context, totals, *nvml_notes(nvml))


def _bare(uuid: str) -> str:
    """A UUID without the prefix that NVML writes and torch does not."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()
