"""Host memory: what there is, what is free, and what this process holds. Standard library only.

Every figure is read from /proc and the control groups; `proc` and `cgroup` can be other folders.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from server.memory.cgroup import Bound, cgroup_bounds, read_text
from server.memory.units import bytes_text

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")

# What each process limit counts, as /proc/self/limits and /proc/self/status name it.
_RLIMITS = (("Max address space", "VmSize"), ("Max data size", "VmData"))


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Host memory as it binds this process. `notes` say what binds below the machine's own."""

    total_bytes: int
    available_bytes: int
    notes: tuple[str, ...] = ()


def read_host(
    proc: Path = PROC, cgroup: Path = CGROUP, kept_bytes: int = 0, sharers: int = 1
) -> HostMemory:
    """The smallest of all bounds: the machine, the control groups, the process's limits.

    "Available" is used rather than "free": the page cache, which reading the weights fills, can
    be had back (vllm-project/vllm issue 35920). Swap is not counted.
    `kept_bytes` of it cannot: files that this process maps. Its own limits count those by
    themselves or not at all. Of what is not its own, this process has one of `sharers` equal parts.
    """
    machine = _machine(proc)
    shared, own = (machine, *cgroup_bounds(proc, cgroup)), process_limits(proc)
    bounds = (*shared, *own)
    part = min(bound.limit_bytes for bound in shared) // sharers
    total = min([part, *(bound.limit_bytes for bound in own)])
    left = max(0, min(bound.available_bytes for bound in shared) - kept_bytes) // sharers
    available = min([left, *(bound.available_bytes for bound in own)])
    notes = tuple(
        f"{bound.source} limits host memory to {bytes_text(bound.limit_bytes)}"
        for bound in bounds[1:]
        if bound.limit_bytes < machine.limit_bytes
    )
    if sharers > 1:
        notes += (f"{sharers} ranks share this host: its memory is divided by {sharers}",)
    return HostMemory(total, available, tuple(dict.fromkeys(notes)))


def process_limits(proc: Path = PROC) -> list[Bound]:
    """The limits of this process, where it has any. They count reserved memory too."""
    status = _fields(proc / "self/status")
    found = []
    for line in read_text(proc / "self/limits").splitlines():
        for label, used in _RLIMITS:
            soft = line.removeprefix(label).split()
            if line.startswith(label) and soft and soft[0].isascii() and soft[0].isdigit():
                found.append(Bound(f"process limit ({label})", int(soft[0]), status.get(used, 0)))
    return found


def resident_bytes(proc: Path = PROC) -> int:
    """What this process holds and the kernel cannot drop: anonymous and shared pages."""
    status = _fields(proc / "self/status")
    return status.get("RssAnon", 0) + status.get("RssShmem", 0)


def reset_high_water(proc: Path = PROC) -> bool:
    """Start a new high-water mark of resident memory; False where the kernel does not let us."""
    try:
        (proc / "self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def high_water_bytes(proc: Path = PROC) -> int:
    """The largest resident size since the mark was reset, file pages included."""
    return _fields(proc / "self/status").get("VmHWM", 0)


def data_bytes(proc: Path = PROC) -> int:
    """Private writable pages that the kernel has promised, used or not."""
    return _fields(proc / "self/status").get("VmData", 0)


def resident_set_bytes(proc: Path = PROC) -> int:
    """The resident size now, counted as the high-water mark counts it."""
    return _fields(proc / "self/status").get("VmRSS", 0)


def file_bytes(proc: Path = PROC) -> int:
    """Resident pages of the files that this process has mapped."""
    return _fields(proc / "self/status").get("RssFile", 0)


def _machine(proc: Path) -> Bound:
    memory = _fields(proc / "meminfo")
    total = memory.get("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # Kernels before 3.14 do not state MemAvailable; the free pages are a lower bound of it.
    available = memory.get("MemAvailable", memory.get("MemFree", total))
    available = min(total, available + _per_cpu_free_bytes(proc))
    return Bound("the machine", total, total - available)


def _per_cpu_free_bytes(proc: Path) -> int:
    """Freed pages that each CPU keeps for its next use. The kernel gives them to any other when
    memory is short, yet counts them neither as free nor as available: up to an eighth of memory
    since Linux 6.7.
    """
    lines = (line.split() for line in read_text(proc / "zoneinfo").splitlines())
    counts = (words[1] for words in lines if len(words) == 2 and words[0] == "count:")
    pages = sum(int(count) for count in counts if count.isascii() and count.isdigit())
    return pages * os.sysconf("SC_PAGE_SIZE")


def _fields(path: Path) -> dict[str, int]:
    """The "Name:  123 kB" lines of a kernel file, in bytes."""
    fields = {}
    for line in read_text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            fields[name] = int(words[0]) * 1024
    return fields
