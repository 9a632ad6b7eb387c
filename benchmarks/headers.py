"""Time and memory of the header pass over very large checkpoints, and how both grow.

    python -m benchmarks.headers [--rounds 5]

Writes sparse Qwen3 checkpoints into a temporary folder: real configs, indexes and headers, holes
for the weights; about 10,000, 30,000 and 100,000 tensors, the last with 10^12 parameters in 201
shards. Judges each with `python -m server --check` as a process, and one of 14 tensors for the
price of an empty check. Prints medians: seconds of the process and of processor time, seconds
of the header pass as the report gives them, and the peak resident memory as the kernel does. The
last two are then told per tensor, and as multiples of what the 10,000 would come to in
proportion, all beyond the empty check. Exits 1 when the 100,000 take more than 1.3 times their
proportion of either, or more than 160 MB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

from server.config.records import TargetConfig
from server.config.tensors import ExpectedTensor
from server.weights.layout import target_layout

ROOT = Path(__file__).resolve().parent.parent
LAYERS = (1, 909, 2727, 9091)  # 11 tensors a layer and 3 more
# Places in LAYERS. On a machine that others use, short checks vary more than long ones.
ROUND = [0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1, 0, 1, 3]
TENSORS_PER_SHARD = 500
LINEAR_LIMIT = 1.3
PEAK_LIMIT_MB = 160

# The kernel counts the memory of the process that starts another one as that one's peak, so
# what starts the server has to be small.
_STARTER = """
import json, os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime,
                  used.ru_maxrss]))
"""


class Size(NamedTuple):
    """What one checkpoint holds."""

    tensors: int
    shards: int
    parameters: int


class Cost(NamedTuple):
    """What one check took: the process, its processor time, its header pass; 2^20 bytes."""

    wall_s: float
    cpu_s: float
    pass_s: float
    peak_mb: float


def config_of(layers: int) -> TargetConfig:
    """A dense Qwen3 geometry with 110 million parameters in each of `layers` layers."""
    return TargetConfig(
        architecture="Qwen3ForCausalLM",
        hidden_size=3072,
        intermediate_size=9216,
        num_hidden_layers=layers,
        num_attention_heads=24,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        dtype="bfloat16",
    )


def write_checkpoint(folder: Path, config: TargetConfig) -> Size:
    """Write config, sparse shards and index."""
    folder.mkdir()
    raw = config.model_dump() | {"architectures": [config.architecture], "model_type": "qwen3"}
    del raw["architecture"]
    (folder / "config.json").write_text(json.dumps(raw))
    tensors = target_layout(config)
    number = -(-len(tensors) // TENSORS_PER_SHARD)
    weight_map: dict[str, str] = {}
    for shard in range(number):
        name = f"model-{shard + 1:05d}-of-{number:05d}.safetensors"
        part = tensors[shard * TENSORS_PER_SHARD : (shard + 1) * TENSORS_PER_SHARD]
        write_shard(folder / name, part)
        weight_map |= dict.fromkeys((tensor.name for tensor in part), name)
    index = {"metadata": {"total_size": 2 * numel(tensors)}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return Size(len(tensors), number, numel(tensors))


def write_shard(path: Path, tensors: Sequence[ExpectedTensor]) -> None:
    """One file with a real header, and a hole where the bf16 weights would be."""
    header, end = {}, 0
    for tensor in tensors:
        begin, end = end, end + 2 * prod(tensor.shape)
        header[tensor.name] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def numel(tensors: Sequence[ExpectedTensor]) -> int:
    """Parameters in all."""
    return sum(prod(tensor.shape) for tensor in tensors)


def check(folder: Path, home: Path) -> Cost:
    """Judge one checkpoint; raises RuntimeError when it is not accepted."""
    env = os.environ | {"HOME": str(home), "SERVER_CACHE_DIR": str(home), "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # start from compiled files
    report = home / "report.json"
    server = [sys.executable, "-m", "server", "--check", "--target", str(folder)]
    server += ["--report-file", str(report)]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-c", _STARTER, *server],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    wall_s = time.perf_counter() - start
    code, cpu_s, peak_kb = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"exit {code}: {done.stderr[-2000:]}")
    phases = {phase["name"]: phase["ms"] for phase in json.loads(report.read_text())["phases"]}
    return Cost(wall_s, cpu_s, phases["tensor headers"] / 1000, peak_kb / 1024)


def measure(folders: Sequence[Path], home: Path, rounds: int) -> list[list[Cost]]:
    """The costs of each folder, in `rounds` interleaved rounds after one check that warms up."""
    costs: list[list[Cost]] = [[] for _ in folders]
    for folder in folders:
        check(folder, home)
    for place in ROUND * rounds:
        costs[place].append(check(folders[place], home))
    return costs


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*map(statistics.median, zip(*costs, strict=True)))


def beyond(cost: Cost, empty: Cost) -> Cost:
    """What `cost` is more than the empty check."""
    return Cost(*(more - less for more, less in zip(cost, empty, strict=True)))


def to_linear(sizes: Sequence[Size], costs: Sequence[Sequence[Cost]], place: int) -> Cost:
    """The median cost at `place` as a multiple of its proportion of the second one's."""
    scale = (sizes[place].tensors - sizes[0].tensors) / (sizes[1].tensors - sizes[0].tensors)
    empty = median(costs[0])
    large, small = beyond(median(costs[place]), empty), beyond(median(costs[1]), empty)
    return Cost(*(more / less / scale for more, less in zip(large, small, strict=True)))


def tell(sizes: Sequence[Size], costs: Sequence[Sequence[Cost]]) -> tuple[Cost, Cost]:
    """Print one line per checkpoint; returns the last one's cost and its multiple of linear."""
    print("tensors shards parameters  seconds  cpu s  pass s  peak MB  us/tensor  B/tensor  linear")
    medians = [median(turns) for turns in costs]
    for place, (size, cost) in enumerate(zip(sizes, medians, strict=True)):
        line = f"{size.tensors:7} {size.shards:6} {size.parameters:10.2e} {cost.wall_s:8.2f} "
        line += f"{cost.cpu_s:6.2f} {cost.pass_s:7.3f} {cost.peak_mb:8.1f}"
        if place:
            more, ratio = beyond(cost, medians[0]), to_linear(sizes, costs, place)
            line += f" {more.pass_s / size.tensors * 1e6:10.1f}"
            line += f" {more.peak_mb * 2**20 / size.tensors:9.0f}"
            line += f"  {ratio.pass_s:.2f} time, {ratio.peak_mb:.2f} memory"
        print(line)
    return medians[-1], to_linear(sizes, costs, len(sizes) - 1)


def main() -> int:
    """Write, measure, print, judge."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        folders = [home / f"layers-{layers}" for layers in LAYERS]
        sizes = [
            write_checkpoint(folder, config_of(layers))
            for folder, layers in zip(folders, LAYERS, strict=True)
        ]
        costs = measure(folders, home, rounds)
    cost, ratio = tell(sizes, costs)
    worst = max(ratio.pass_s, ratio.peak_mb)
    print(f"limits: {worst:.2f} of {LINEAR_LIMIT} x, {cost.peak_mb:.0f} of {PEAK_LIMIT_MB} MB")
    return int(worst > LINEAR_LIMIT or cost.peak_mb > PEAK_LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
