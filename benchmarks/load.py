"""Loading a checkpoint on this machine's CPU: this server, public loaders, and plain memcpy.

    python -m benchmarks.load [--gigabytes 4] [--rounds 3] [--cold-rounds 3] [--folder PATH]

Writes a Qwen3-shaped bfloat16 checkpoint (random weights, four shards) into a temporary folder,
or below --folder, and loads it by every method in turn, each time in a new process; the rounds
are interleaved, each in another order, so that a slow moment hits all alike, and the table has
medians. Warm: the files are in the page cache. Cold: they were dropped from it (fsync, then
posix_fadvise DONTNEED).
This server looks at every value (`ours`, `ours_mapped`), the others do not.
All memory is fresh; copies into memory that was written before are measured by
`benchmarks/touched.py`, in one process. Two more tables time a whole boot until its weights are
loaded. Exits 1 when a limit is missed.
The public loaders come with the extra `bench`; those that are not installed are left out.
"""

import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file

from benchmarks.load_one import METHODS, TENSORIZED
from server.config.records import TargetConfig
from server.weights.layout import target_layout

ROOT = Path(__file__).resolve().parent.parent
SHARDS = 4
EMBEDDINGS_GB, LAYER_GB = 1.244, 0.1007
# What is the page cache's to hold, and what has memory of its own after the load.
PRIVATE = ("load_file_pread", "fastsafetensors", "runai", "tensorizer")
BOOTS = ("boot, reading ahead", "boot, reading after the import")
_BOOT = """
import json, os, sys
from server import loading, process
from server.weights.ahead import Ahead, ReadAhead
if sys.argv.pop(1) == "boot, reading after the import":
    read_ahead = loading.read_ahead
    def nothing(placed):
        known = read_ahead(placed).plans.values()
        return ReadAhead([Ahead(one.plan, held=one.held) for one in known])
    loading.read_ahead = nothing
load = loading.load
def told(opened, ahead, log):
    load(opened, ahead, log)
    spent = log.elapsed_s()
    print(json.dumps({"load_s": spent, "load_and_read_s": spent}), flush=True)
    os._exit(0)
loading.load = told
sys.exit(process.main())
"""


class Run(NamedTuple):
    """Medians over the rounds of one method, seconds and bytes."""

    load_s: float
    load_and_read_s: float
    process_s: float
    peak_bytes: float
    size_bytes: float


def config_of(gigabytes: float) -> TargetConfig:
    """An untied Qwen3-1.7B geometry with as many layers as `gigabytes` hold in bfloat16."""
    return TargetConfig(
        architecture="Qwen3ForCausalLM",
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=max(1, round((gigabytes - EMBEDDINGS_GB) / LAYER_GB)),
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        dtype="bfloat16",
        tie_word_embeddings=False,
    )


def write_checkpoint(folder: Path, config: TargetConfig) -> None:
    """Config, shards and index."""
    unset = {"architecture", "bos_token_id", "eos_token_id", "pad_token_id"}
    raw = config.model_dump(exclude=unset, exclude_none=True)
    raw |= {"architectures": [config.architecture], "model_type": "qwen3"}
    (folder / "config.json").write_text(json.dumps(raw))
    wanted = [tensor for tensor in target_layout(config) if tensor.loaded]
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        name = f"model-{number:05d}.safetensors"
        part = wanted[number::SHARDS]
        values = {t.name: torch.randn(t.shape, dtype=torch.bfloat16) * 0.02 for t in part}
        save_file(values, folder / name)
        weight_map |= dict.fromkeys(values, name)
        del values
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_tensorized(folder: Path) -> None:
    """The same tensors in tensorizer's own format, where it is installed."""
    try:
        from tensorizer import TensorSerializer
    except ImportError:
        return
    from safetensors.torch import load_file

    shards = sorted(folder.glob("*.safetensors"))
    tensors = {name: t for shard in shards for name, t in load_file(shard).items()}
    serializer = TensorSerializer(str(folder / TENSORIZED))
    serializer.write_state_dict(tensors)
    serializer.close()


def prepare(folder: Path, method: str, *, cold: bool) -> None:
    """Put the files that `method` reads into the page cache, or drop them from it."""
    pattern = TENSORIZED if method == "tensorizer" else "*.safetensors"
    scratch = bytearray(2**24)
    for name in glob.glob(str(folder / pattern)):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            if cold:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            while not cold and os.readv(descriptor, [scratch]):
                pass
        finally:
            os.close(descriptor)


def run(folder: Path, method: str) -> dict[str, float | str]:
    """One process; what it printed, and its wall time as "process_s"."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "SERVER_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "benchmarks.load_one", method, str(folder)]
    if method in BOOTS:
        flags = ["--target", str(folder), "--device", "cpu", "--output-format", "json"]
        command = [sys.executable, "-c", _BOOT, method, *flags]
    begin = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    spent = time.perf_counter() - begin
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or done.stdout.splitlines())[-1]}
    found: dict[str, float | str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found | {"process_s": spent}


def measure(folder: Path, methods: Collection[str], rounds: int, *, cold: bool) -> dict[str, Run]:
    """Medians by method; tells on standard error which method was left out, and why."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    left = list(methods)
    dice = random.Random(1)
    for _ in range(rounds):
        # What a process has just given back is taken again cheaply: none is to follow the same one.
        for method in dice.sample(left, len(left)):
            prepare(folder, method, cold=cold)
            one = run(folder, method)
            if "missing" in one:
                print(f"left out: {method}: {one['missing']}", file=sys.stderr)
                left.remove(method)
                continue
            found[method].append({key: float(value) for key, value in one.items()})
    return {
        method: Run(*(statistics.median(run.get(key, 0.0) for run in runs) for key in Run._fields))
        for method in methods
        if (runs := found[method])
    }


def copies(folder: Path) -> dict[str, float]:
    """Seconds of each copy into touched memory; prints their table."""
    command = [sys.executable, "-m", "benchmarks.touched", str(folder)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    size_bytes = sum(shard.stat().st_size for shard in folder.glob("*.safetensors"))
    print("\n| into touched memory | s | GB/s | x memcpy |\n|---|---|---|---|")
    for name, spent_s in found.items():
        rate = size_bytes / spent_s / 1e9
        print(f"| {name} | {spent_s:.3f} | {rate:.1f} | {found['memcpy'] / spent_s:.2f} |")
    return found


def table(title: str, runs: dict[str, Run]) -> None:
    """Print one Markdown table."""
    print(f"\n| {title} | load s | GB/s | load + read s | whole process s | peak / weights |")
    print("|---|---|---|---|---|---|")
    for name, one in runs.items():
        rate = f"{one.size_bytes / one.load_s / 1e9:.1f}" if one.size_bytes else ""
        peak = f"{one.peak_bytes / one.size_bytes:.3f}" if one.size_bytes else ""
        figures = f"{one.load_s:.3f} | {rate} | {one.load_and_read_s:.3f} | {one.process_s:.2f}"
        print(f"| {name} | {figures} | {peak} |", flush=True)


class Found(NamedTuple):
    """What was measured: runs by method, and the seconds of copies into touched memory."""

    warm: dict[str, Run]
    cold: dict[str, Run]
    touched: dict[str, float]


def limits(measured: Found) -> list[tuple[str, bool]]:
    """Each limit with its figures, and whether it holds. Like is compared with like."""
    warm, cold, touched = measured
    ours, found = warm["ours"], []
    for cache, runs in {"warm": warm, "cold": cold}.items():
        mine = runs["ours"].load_s
        for name in PRIVATE:
            if name in runs:
                said = f"{cache}, private, each value looked at, {mine:.3f} s < {name}"
                found.append((f"{said} {runs[name].load_s:.3f} s", mine < runs[name].load_s))
    for mine, theirs in (
        ("ours, reads alone", "memcpy"),
        ("ours, looked at", "memcpy, looked at"),
    ):
        ratio = touched[theirs] / touched[mine]
        found.append((f"touched: {mine}, is {ratio:.2f} x {theirs}, at least 1.2", ratio >= 1.2))
    # Tensors begin at a cache line, and files do not: that costs the kernel's copy up to a third.
    ratio = touched["ours, reads alone"] / touched["pread"]
    said = f"touched: the reads alone take {ratio:.2f} x the kernel's own copy, at most 1.4"
    found.append((said, ratio <= 1.4))
    peak = ours.peak_bytes / ours.size_bytes
    found.append((f"private peak is {peak:.3f} x weights, at most 1.02", peak <= 1.02))
    for mine, theirs in (
        ("ours_mapped_unchecked", "load_file"),
        ("ours_mapped", "load_file_checked"),
    ):
        ratio = warm[mine].load_s / warm[theirs].load_s
        found.append((f"{mine} takes {ratio:.2f} x {theirs}, at most 1.2", ratio <= 1.2))
    if all(name in cold for name in BOOTS):
        ahead, after = (cold[name].load_s for name in BOOTS)
        said = f"cold boot until loaded: {ahead:.2f} s, {after:.2f} s reading after the import"
        said += f", {1 - ahead / after:.0%} less, at least 25 %"
        found.append((said, ahead <= 0.75 * after))
    return found


def report(folder: Path, asked: argparse.Namespace) -> int:
    """Write, measure, print; returns the exit code."""
    write_checkpoint(folder, config_of(asked.gigabytes))
    write_tensorized(folder)
    # What a process wrote is cached in smaller parts than what is read from a disk, and copied
    # more slowly.
    for method in ("ours", "tensorizer"):
        prepare(folder, method, cold=True)
    loaders = [name for name in METHODS if not name.endswith("checked")]
    warm = measure(folder, METHODS, asked.rounds, cold=False)
    table("warm page cache", warm)
    prepare(folder, "ours", cold=False)
    touched = copies(folder)
    cold = measure(folder, loaders, asked.cold_rounds, cold=True)
    table("cold page cache", cold)
    table("warm boot until loaded", measure(folder, BOOTS, asked.rounds, cold=False))
    boots = measure(folder, BOOTS, asked.rounds, cold=True)
    table("cold boot until loaded", boots)
    print()
    held = limits(Found(warm, cold | boots, touched))
    for said, holds in held:
        print(f"- {'holds ' if holds else 'MISSED'} {said}")
    return 0 if all(holds for _, holds in held) else 1


def main() -> int:
    """Parse, and measure in a folder of its own."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold-rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        return report(Path(place), asked)


if __name__ == "__main__":
    sys.exit(main())
