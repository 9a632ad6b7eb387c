"""Opening the device that `find_device` named. Torch is imported from here on."""

import os
import sys
import warnings
from dataclasses import replace
from types import ModuleType

from server.config.rules import finding
from server.findings import Location, Outcome, first_line, outcome_of
from server.limits import pass_on_limit
from server.memory.facts import DeviceFacts, DeviceKind, Machine, host_facts, no_device
from server.memory.source import MemorySource


def open_device(
    facts: DeviceFacts, machine: Machine | None = None
) -> tuple[MemorySource | None, Outcome]:
    """A memory source for the device, its `facts` completed; None comes only with an error.

    SD607 when torch or safetensors cannot be used, SD601 when torch sees no such device. An
    undecided device becomes CUDA where torch sees it, else the host.
    """
    machine = machine or Machine()
    torch, outcome = usable_torch()
    if torch is None:
        return None, outcome
    if facts.kind is DeviceKind.CPU:
        return _host(facts, machine)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if facts.index < count:
        return _cuda(facts, machine)
    built = "for CUDA" if torch.version.cuda or torch.version.hip else "without CUDA"
    why = f"torch {torch.__version__} is built {built} and sees {count} GPUs"
    if facts.kind is DeviceKind.UNDECIDED:
        return _host(host_facts(machine, why), machine)
    where = Location("device", value=facts.label, source=facts.reason)
    return None, outcome_of("SD601", (no_device(f"cuda:{facts.index}", why, where),))


def usable_torch() -> tuple[ModuleType | None, Outcome]:
    """Torch, imported and tried, with what the load needs beside it; None comes with SD607."""
    for name, load in (("torch", _import_torch), ("safetensors", _import_safetensors)):
        try:
            load()
        except Exception as error:  # whatever a broken build raises
            pass_on_limit(error)
            message = f"{name} cannot be imported: {_told(error)}"
            return None, _unusable(message, "install this server's packages again")
    return sys.modules["torch"], outcome_of("SD607", ())


def _import_torch() -> None:
    """Torch, without its remark that numpy is not there: this server does not use numpy."""
    # Threads that spin while they wait take a shared host's cores from one another: a boot beside
    # one busy process took several times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        os.getcwd()  # without one MKL ends the process
    except OSError as error:
        message = "the folder in which this server was started is gone; start it in another"
        raise ImportError(message) from error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
        import torch
    torch.empty(0)  # any folder of that name can be imported, and holds no torch


def _import_safetensors() -> None:
    from safetensors import safe_open  # noqa: F401  (the load asks it about every file)


def _host(facts: DeviceFacts, machine: Machine) -> tuple[MemorySource, Outcome]:
    from server.memory.host_source import HostSource

    # Importing torch took memory: the figures of before are stale.
    fresh = host_facts(machine, facts.reason)
    notes = tuple(dict.fromkeys((*facts.notes, *fresh.notes)))
    source = HostSource(replace(fresh, notes=notes), machine)
    return source, outcome_of("SD607", ())


def _cuda(facts: DeviceFacts, machine: Machine) -> tuple[MemorySource | None, Outcome]:
    from server.memory.cuda import open_cuda

    if facts.kind is DeviceKind.UNDECIDED:
        facts = replace(facts, reason="torch sees it")
    try:
        source, outcome = open_cuda(facts, machine)
    except RuntimeError as error:
        return None, _unusable(f"cuda:{facts.index} cannot be opened: {first_line(error)}")
    return source, outcome_of("SD607", ()) + outcome


def _unusable(message: str, fix: str | None = None) -> Outcome:
    return outcome_of("SD607", (finding("SD607", message, fix=fix),))


def _told(error: Exception) -> str:
    """What an error says, with its kind where the text alone would not tell what happened."""
    if isinstance(error, ImportError | OSError):
        return first_line(error)
    return ": ".join(dict.fromkeys((type(error).__name__, first_line(error))))
