"""Peak resident memory of a boot against what its own report accounts for.

    python -m benchmarks.boot_memory [--gigabytes 3] [--kv-cache-memory-bytes 1GiB]

Writes a Qwen3-shaped float32 target of about that size (random weights, several shards, in a
temporary folder), boots it on the CPU with no draft, and compares the process's peak resident
set, as the kernel reports it, with weights + KV pool + measured step peak, and what is resident at
the end with what the ledger explains. Exits 1 when the peak is more than 10 % above its sum, or
the two last are more than 2 % apart.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from server.config.records import TargetConfig
from server.weights.layout import target_layout

ROOT = Path(__file__).resolve().parent.parent
ALLOWANCE = 1.10
UNEXPLAINED = 0.02
LAYER_GIGABYTES = 0.214  # one layer of this width, in float32


def config_of(gigabytes: float) -> TargetConfig:
    """A Qwen3 geometry whose weights take about `gigabytes` in float32."""
    return TargetConfig(
        architecture="Qwen3ForCausalLM",
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=max(1, round(gigabytes / LAYER_GIGABYTES)),
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=4096,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        dtype="float32",
        tie_word_embeddings=True,
    )


def write_checkpoint(folder: Path, config: TargetConfig, per_shard: int = 24) -> int:
    """Write config, shards and index; returns the bytes of the weights."""
    raw = config.model_dump() | {"architectures": [config.architecture], "model_type": "qwen3"}
    del raw["architecture"]
    (folder / "config.json").write_text(json.dumps(raw))
    wanted = [tensor for tensor in target_layout(config) if tensor.loaded]
    weight_map, total = {}, 0
    for start in range(0, len(wanted), per_shard):
        name = f"model-{start:05d}.safetensors"
        part = {t.name: torch.randn(t.shape) * 0.02 for t in wanted[start : start + per_shard]}
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
        total += sum(tensor.nbytes for tensor in part.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def main() -> int:
    """Write, boot, compare."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--kv-cache-memory-bytes", default="1GiB")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        weights = write_checkpoint(Path(place), config_of(asked.gigabytes))
        flags = ["--target", place, "--device", "cpu", "--exit-after-boot"]
        flags += ["--kv-cache-memory-bytes", asked.kv_cache_memory_bytes]
        command = [sys.executable, "-m", "server", *flags, "--output-format", "json"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False)
    report = json.loads(done.stdout)
    if done.returncode:
        print(json.dumps(report["diagnostics"], indent=2))
        return done.returncode
    lines = {line["line"]: line["measured_bytes"] for line in report["memory"]["ledger"]}
    accounted = lines["target weights"] + lines["KV pool"] + lines["activation"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"weights on disk      {weights:>14,} B")
    print(f"weights, resident    {lines['target weights']:>14,} B")
    print(f"KV pool              {lines['KV pool']:>14,} B")
    print(f"step peak            {lines['activation']:>14,} B")
    print(f"accounted            {accounted:>14,} B")
    print(f"peak resident set    {peak:>14,} B   {peak / accounted:.3f} of {ALLOWANCE} x accounted")
    resident = accounted - lines["activation"] + lines["runtime"]
    unexplained = report["memory"]["unexplained_bytes"]
    print(f"resident at the end  {resident:>14,} B")
    print(f"ledger explains      {resident - unexplained:>14,} B   {unexplained / resident:+.3%}")
    spent = ", ".join(f"{p['name']} {p['ms']:.0f}" for p in report["phases"])
    print(f"phases, ms           {spent}")
    return int(peak > ALLOWANCE * accounted or abs(unexplained) > UNEXPLAINED * resident)


if __name__ == "__main__":
    sys.exit(main())
