"""CUDA_VISIBLE_DEVICES, as far as it can be resolved without CUDA. Standard library only.

Entries are integers, UUIDs (also shortened) or MIG UUIDs; the first decides which. An invalid
entry hides every later one, an entry given twice hides all, and of "1x" the 1 counts: so do CUDA
and torch (pytorch/pytorch torch/cuda/__init__.py, _parse_visible_devices). Nothing here is taken
for certain: CUDA confirms it by UUID later.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from server.memory.nvml import NvmlDevice

VARIABLE = "CUDA_VISIBLE_DEVICES"

_GPU, _MIG = "GPU-", "MIG-"
_NUMBER = re.compile(r"\+?([0-9]{1,5})(?![0-9])")


def hides_all(environ: Mapping[str, str]) -> bool:
    """True when the variable hides every GPU, whatever GPUs there are."""
    value = environ.get(VARIABLE)
    if value is None:
        return False
    first = value.split(",")[0].strip()
    return not first or first.startswith("-") or first == "NoDevFiles"


def visible_devices(
    environ: Mapping[str, str], devices: Sequence[NvmlDevice]
) -> tuple[tuple[NvmlDevice, ...], ...]:
    """The devices that CUDA will show, in its order: for each, the NVML devices it may be.

    Several where only CUDA knows: it counts the fastest device first, NVML by PCI bus. None at
    all for a MIG slice that NVML does not list.
    """
    everything = ",".join(str(device.index) for device in devices)
    entries = [entry.strip() for entry in environ.get(VARIABLE, everything).split(",")]
    kind = next((kind for kind in (_GPU, _MIG) if entries[0].startswith(kind)), "")
    found: dict[object, tuple[NvmlDevice, ...]] = {}
    for entry in entries:
        resolved = _resolve(entry, kind, environ, devices) if entry.startswith(kind) else None
        if resolved is None:
            break
        known, candidates = resolved
        if known in found:
            return ()
        found[known] = candidates
    return tuple(found.values())


def _resolve(
    entry: str, kind: str, environ: Mapping[str, str], devices: Sequence[NvmlDevice]
) -> tuple[object, tuple[NvmlDevice, ...]] | None:
    """What `entry` names, however it is spelt, and the devices it may be; None when invalid."""
    if kind == _MIG:
        same = _by_uuid(entry, [part for device in devices for part in device.slices])
        return entry, same if len(same) == 1 else ()
    if kind == _GPU:
        same = _by_uuid(entry, devices)
        return (same[0].index, same) if len(same) == 1 else None
    number = _NUMBER.match(entry)
    if number is None or int(number[1]) >= len(devices):
        return None
    return int(number[1]), _by_index(int(number[1]), environ, devices)


def _by_uuid(start: str, devices: Iterable[NvmlDevice]) -> tuple[NvmlDevice, ...]:
    return tuple(d for d in devices if d.uuid is not None and d.uuid.startswith(start))


def _by_index(
    index: int, environ: Mapping[str, str], devices: Sequence[NvmlDevice]
) -> tuple[NvmlDevice, ...]:
    """One device where CUDA counts as NVML does.

    A GPU that NVML cannot name may be missing for CUDA, and then every later number is another.
    """
    in_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if in_order and all(device.uuid is not None for device in devices):
        return (devices[index],)
    return tuple(devices)
