"""CUDA_VISIBLE_DEVICES, as far as it can be resolved without CUDA. Standard library only.

Entries are integers, UUIDs (also shortened) or MIG UUIDs. An invalid entry hides every later
one, as CUDA does it. Nothing here is taken for certain: CUDA confirms it by UUID later.
"""

from collections.abc import Mapping, Sequence

from server.memory.nvml import NvmlDevice

VARIABLE = "CUDA_VISIBLE_DEVICES"


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
    all for a MIG slice, which NVML lists under its parent.
    """
    value = environ.get(VARIABLE)
    entries = value.split(",") if value is not None else [str(d.index) for d in devices]
    found: list[tuple[NvmlDevice, ...]] = []
    for entry in entries:
        resolved = _resolve(entry.strip(), environ, devices)
        if resolved is None:
            break
        found.append(resolved)
    return tuple(found)


def _resolve(
    entry: str, environ: Mapping[str, str], devices: Sequence[NvmlDevice]
) -> tuple[NvmlDevice, ...] | None:
    """The device that `entry` names, or None when it is invalid."""
    if entry.startswith("MIG-"):
        return ()
    if entry.isascii() and entry.isdigit() and len(entry) < 6:
        return _by_index(int(entry), environ, devices)
    if not entry.startswith("GPU-"):
        return None
    same = tuple(d for d in devices if d.uuid is not None and d.uuid.startswith(entry))
    return same if len(same) == 1 else None


def _by_index(
    index: int, environ: Mapping[str, str], devices: Sequence[NvmlDevice]
) -> tuple[NvmlDevice, ...] | None:
    if index >= len(devices):
        return None
    if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return (devices[index],)
    return tuple(devices)
