"""One way to load a checkpoint, in a process of its own.

    python -m benchmarks.load_one METHOD FOLDER

Prints one JSON object: seconds of the load and of reading every byte once after it, and by how
much resident memory peaked above what the process had before. Imports are not counted. A loader
that is not installed gives {"missing": NAME}.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from server.config.geometry import DTYPE_BYTES
from server.memory.host import high_water_bytes, reset_high_water, resident_set_bytes
from server.weights.ahead import Ahead, ReadAhead
from server.weights.arena import Arena
from server.weights.finite import not_finite
from server.weights.index import read_inventory
from server.weights.load import load_weights, tensors_in
from server.weights.load_plan import LoadPlan
from server.weights.mapped import map_tensors
from server.weights.pieces import Held

Tensors = dict[str, torch.Tensor]
Load = Callable[[], Tensors]
TENSORIZED = "all.tensors"


class Silent:
    """Progress that is not told."""

    def advance(self, size_bytes: int) -> None:
        """Nobody watches."""


def plan_of(folder: Path) -> LoadPlan:
    """Everything in the checkpoint, in file order."""
    inventory, outcome = read_inventory("target", folder)
    if inventory is None:
        raise RuntimeError(str(outcome.findings))
    entries = sorted(inventory.tensors.values(), key=lambda e: (e.file, e.begin))
    return LoadPlan("target", tuple(entries), {s.path: s for s in inventory.shards}, "bfloat16")


def files_of(folder: Path) -> list[str]:
    """The shards, in order."""
    return sorted(map(str, folder.glob("*.safetensors")))


def ours(folder: Path) -> Load:
    """As a boot does it without reading ahead, the check of every value included.

    What it brings into the page cache it drops, as where there is no room for both.
    """
    return _ours(folder, keep_cached=False)


def ours_kept(folder: Path) -> Load:
    """The same where there is room: the files stay in the page cache."""
    return _ours(folder, keep_cached=True)


def _ours(folder: Path, *, keep_cached: bool) -> Load:
    plan = plan_of(folder)

    def load() -> Tensors:
        tensors = tensors_in(Arena(plan.entries, DTYPE_BYTES[plan.dtype]), plan, torch.bfloat16)
        load_weights(plan, tensors, Silent(), Held(keep_cached=keep_cached))
        return tensors

    return load


def ours_mapped(folder: Path) -> Load:
    """--weights mapped, the check of every value included."""
    plan = plan_of(folder)

    def load() -> Tensors:
        tensors = map_tensors(plan)
        load_weights(plan, tensors, Silent(), Held(mapped=True))
        return tensors

    return load


def ours_mapped_unchecked(folder: Path) -> Load:
    """What --weights mapped does before it looks at the values."""
    plan = plan_of(folder)
    return lambda: map_tensors(plan)


def ours_unchecked(folder: Path) -> Load:
    """The reads alone, as before the import, into fresh memory: what other loaders do."""
    plan = plan_of(folder)
    return lambda: read_alone(plan, Arena(plan.entries, DTYPE_BYTES[plan.dtype]))


def load_file(folder: Path) -> Load:
    """safetensors.torch.load_file: tensors are views of a private mapping."""
    from safetensors.torch import load_file as read

    return lambda: {k: t for name in files_of(folder) for k, t in read(name).items()}


def load_file_checked(folder: Path) -> Load:
    """load_file, then the same look at every value, by torch's own threads."""
    mapped = load_file(folder)

    def load() -> Tensors:
        tensors = mapped()
        if any(not_finite(tensor) for tensor in tensors.values()):
            raise RuntimeError("not finite")
        return tensors

    return load


def load_file_pread(folder: Path) -> Load:
    """safetensors.torch.load_file(backend="pread"), since 0.8."""
    import inspect

    from safetensors.torch import load_file as read

    if "backend" not in inspect.signature(read).parameters:
        raise ImportError("load_file with backend")
    return lambda: {
        k: t for name in files_of(folder) for k, t in read(name, backend="pread").items()
    }


def from_pretrained(folder: Path) -> Load:
    """Transformers: a mapped model on the CPU."""
    from transformers import AutoModelForCausalLM

    def load() -> Tensors:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        return dict(model.named_parameters())

    return load


def fastsafetensors(folder: Path) -> Load:
    """fastsafetensors without GPU direct storage."""
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def load() -> Tensors:
        loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
        loader.add_filenames({0: files_of(folder)})
        held = loader.copy_files_to_device()
        load.held = loader, held  # type: ignore[attr-defined]
        return {name: held.get_tensor(name) for name in held.key_to_rank_lidx}

    return load


def runai(folder: Path) -> Load:
    """Run:ai model streamer; its memory limit is lifted, so that the tensors stay."""
    os.environ["RUNAI_STREAMER_MEMORY_LIMIT"] = "-1"
    from runai_model_streamer import SafetensorsStreamer

    def load() -> Tensors:
        streamer = SafetensorsStreamer().__enter__()
        load.held = streamer  # type: ignore[attr-defined]
        streamer.stream_files(files_of(folder))
        return dict(streamer.get_tensors())

    return load


def tensorizer(folder: Path) -> Load:
    """Tensorizer, from its own format, which `load.py` wrote before."""
    from tensorizer import TensorDeserializer

    def load() -> Tensors:
        held = TensorDeserializer(str(folder / TENSORIZED), device="cpu", num_readers=2)
        load.held = held  # type: ignore[attr-defined]
        return dict(held.items())

    return load


METHODS: dict[str, Callable[[Path], Load]] = {
    method.__name__: method
    for method in (
        ours,
        ours_kept,
        ours_unchecked,
        ours_mapped,
        ours_mapped_unchecked,
        load_file,
        load_file_checked,
        load_file_pread,
        from_pretrained,
        fastsafetensors,
        runai,
        tensorizer,
    )
}


def measure(method: str, folder: Path) -> dict[str, float]:
    """Run one method once."""
    load = METHODS[method](folder)
    before = resident_set_bytes()
    reset_high_water()
    begin = time.perf_counter()
    tensors = load()
    loaded = time.perf_counter()
    for tensor in tensors.values():
        tensor.detach().sum()
    read = time.perf_counter()
    size_bytes = sum(tensor.nbytes for tensor in tensors.values())
    return {
        "load_s": loaded - begin,
        "load_and_read_s": read - begin,
        "size_bytes": size_bytes,
        "peak_bytes": high_water_bytes() - before,
    }


def read_alone(plan: LoadPlan, arena: Arena) -> Tensors:
    """What is read while torch is imported."""
    with ReadAhead([Ahead(plan, arena)]) as ahead:
        ahead.wait()
    return tensors_in(arena, plan, torch.bfloat16)


def main() -> int:
    """Run the method that the command line names."""
    method, folder = sys.argv[1:]
    try:
        found: dict[str, object] = dict(measure(method, Path(folder)))
    except ImportError as error:
        found = {"missing": str(error)}
    print(json.dumps(found), flush=True)
    # What a loader holds is not torn down on the clock of the whole process.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
