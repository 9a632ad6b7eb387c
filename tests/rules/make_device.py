"""Devices as NVML and CUDA tell them, for the rules that compare the two."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

import pytest

from server.findings import Outcome
from server.memory.device import open_device
from server.memory.facts import DeviceKind, find_device
from tests.memory.fake_machine import MIB, FakeMachine, fake_gpu, fake_nvml
from tests.memory.make import make_facts
from tests.memory.test_device import FakeCuda

_UUID = "aaaa-1"


class Found(NamedTuple):
    """A device that is asked for where NVML lists `gpus` GPUs; None: NVML does not answer."""

    device: str
    gpus: int | None

    @property
    def told(self) -> str:
        listed = "does not answer" if self.gpus is None else f"lists {self.gpus} GPUs"
        return f"`--device {self.device}`, where NVML {listed}."

    def judge(self, folder: Path) -> Outcome:
        gpus = None if self.gpus is None else [fake_gpu(f"GPU-{n}") for n in range(self.gpus)]
        return find_device(self.device, {}, FakeMachine(folder).machine(fake_nvml(gpus)))[1]


class Started(NamedTuple):
    """A host on which the server is started in a folder with a file `named`."""

    named: str

    @property
    def told(self) -> str:
        return f"`--device cpu`, started in a folder with a file `{self.named}`."

    def judge(self, folder: Path) -> Outcome:
        (folder / self.named).touch()
        machine = FakeMachine(folder).machine()
        with pytest.MonkeyPatch.context() as patch:
            # Where torch was imported once, nothing is looked for again; a new process looks.
            if PathFinder.find_spec("torch", [str(folder)]):
                patch.delitem(sys.modules, "torch")
            patch.syspath_prepend(folder)
            return open_device(make_facts(kind=DeviceKind.CPU), machine)[1]


class Opened(NamedTuple):
    """A GPU that NVML knows by one UUID, and that CUDA opens under `uuid`."""

    uuid: str

    @property
    def told(self) -> str:
        return f"NVML lists the GPU with UUID `GPU-{_UUID}`, CUDA opens the one with `{self.uuid}`."

    def judge(self, folder: Path) -> Outcome:
        nvml = fake_nvml([fake_gpu(f"GPU-{_UUID}", 80 * MIB, 72 * MIB)])
        machine = FakeMachine(folder).machine(nvml)
        facts = make_facts(exact=False, uuid=f"GPU-{_UUID}", total_bytes=80 * MIB)
        cuda = FakeCuda()
        cuda.uuid = self.uuid
        # There is no other way to a second GPU where there is none at all.
        with pytest.MonkeyPatch.context() as patch:
            cuda.patch(patch)
            return open_device(facts, machine)[1]
