"""Copies into memory that was written before: memcpy, the kernel's own copy, and this server's.

    python -m benchmarks.touched FOLDER [--rounds 9]

FOLDER is a checkpoint whose files are in the page cache. All ways are in one process and take
turns, so that a slow moment, and where in the machine's memory a buffer lies, hit all alike; two
threads each, medians. Needs three times the weights in memory, beside the page cache.
Prints one JSON object: seconds by way. The reader of the import has one thread on two processors;
here it is given as many as the others.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch

from benchmarks.load_one import Silent, plan_of
from server.config.geometry import DTYPE_BYTES
from server.weights.arena import Arena
from server.weights.entries import TensorEntry
from server.weights.finite import not_finite
from server.weights.load import load_weights, tensors_in
from server.weights.load_plan import LoadPlan
from server.weights.pieces import batches, cut, open_files, read_batch
from server.weights.team import thread_count

_STEP_BYTES, _PAGE_BYTES = 16 * 2**20, 4096
Way = Callable[[], object]


def ways(folder: Path) -> dict[str, Way]:
    """Each way by its name, its memory written."""
    plan = plan_of(folder)
    arena = Arena(plan.entries, DTYPE_BYTES[plan.dtype])
    tensors = tensors_in(arena, plan, torch.bfloat16)
    for tensor in tensors.values():
        tensor.zero_()
    size_bytes = sum(shard.size_bytes for shard in plan.shards.values())
    source, into = _buffer(size_bytes), _buffer(size_bytes)
    source.fill_(0.5)
    into.zero_()
    return {
        "memcpy": partial(_memcpy, source, into),
        "memcpy, looked at": partial(_memcpy_checked, source, into),
        "pread": partial(_pread, plan, into),
        "ours, reads alone": partial(_reads, plan, arena),
        "ours, looked at": partial(load_weights, plan, tensors, Silent()),
    }


def _memcpy(source: torch.Tensor, into: torch.Tensor) -> None:
    def copy(at: int) -> None:
        step_bytes = min(_STEP_BYTES, into.nbytes - at)
        ctypes.memmove(into.data_ptr() + at, source.data_ptr() + at, step_bytes)

    _threads(partial(copy, at) for at in range(0, into.nbytes, _STEP_BYTES))


def _memcpy_checked(source: torch.Tensor, into: torch.Tensor) -> None:
    """The same look at every value as a second pass."""
    _memcpy(source, into)
    _threads(partial(not_finite, part) for part in into.split(_STEP_BYTES // 2))


def _pread(plan: LoadPlan, into: torch.Tensor) -> None:
    """Nothing but preadv, each byte where in a cache line it is in its file: the kernel's best."""
    with open_files(plan) as descriptors:
        steps, begin = [], into.data_ptr()
        for path, descriptor in descriptors.items():
            size_bytes = plan.shards[path].size_bytes
            for at in range(0, size_bytes, _STEP_BYTES):
                step_bytes = min(_STEP_BYTES, size_bytes - at)
                memory = (ctypes.c_char * step_bytes).from_address(begin + at)
                steps.append(partial(os.preadv, descriptor, [memory], at))
            begin += size_bytes // _PAGE_BYTES * _PAGE_BYTES
        _threads(steps)


def _reads(plan: LoadPlan, arena: Arena) -> None:
    with open_files(plan) as descriptors:
        work = batches(cut(plan, descriptors), _STEP_BYTES)
        _threads(
            partial(
                read_batch,
                batch,
                [arena.view(p.entry.name)[p.at_bytes : p.at_bytes + p.size_bytes] for p in batch],
            )
            for batch in work
        )


def _buffer(size_bytes: int) -> torch.Tensor:
    """Memory such as the weights have, as one tensor."""
    entry = TensorEntry("all", "BF16", (size_bytes // 2,), Path(), 0, size_bytes // 2 * 2)
    plan = LoadPlan("target", (entry,), {}, "bfloat16")
    return tensors_in(Arena([entry], 2), plan, torch.bfloat16)["all"]


def _threads(steps: Iterable[Callable[[], object]]) -> None:
    """Every step, by as many threads as the loader uses."""
    left = iter(steps)
    lock = threading.Lock()

    def run() -> None:
        torch.set_num_threads(1)
        while True:
            with lock:
                step = next(left, None)
            if step is None:
                return
            step()

    threads = [threading.Thread(target=run) for _ in range(thread_count())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    """Measure all ways in turn."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    every, spent = ways(asked.folder), defaultdict[str, list[float]](list)
    for _ in range(asked.rounds):
        for name, way in every.items():
            begin = time.perf_counter()
            way()
            spent[name].append(time.perf_counter() - begin)
    print(json.dumps({name: statistics.median(taken) for name, taken in spent.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
