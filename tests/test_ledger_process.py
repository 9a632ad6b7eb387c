"""The ledger of a sizeable pair against what the kernel says of the process, seen from outside."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from server.config.draft import judge_file
from server.config.families.model import DraftFile
from server.config.records import TargetConfig
from server.config.tensors import ExpectedTensor
from server.config.values import Source
from server.findings import Outcome
from server.memory.host import read_host, resident_bytes
from server.memory.host_source import RESIDENT_NOISE_BYTES
from server.weights.layout import draft_layout, target_layout
from server.weights.sample_configs import CONFIGS
from tests.process import SMALL, environment
from tests.test_boot_process import read_until, start

MIB = 2**20
WIDE = {"hidden_size": 2048, "intermediate_size": 6144}


def write_model(folder: Path, config: dict[str, Any], tensors: Iterable[ExpectedTensor]) -> int:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    wanted = [tensor for tensor in tensors if tensor.loaded]
    # Alike, so that the draft is right at once and the self-test is short.
    made = {t.name: torch.full(t.shape, 0.01, dtype=torch.bfloat16) for t in wanted}
    save_file(made, folder / "model.safetensors")
    return sum(tensor.nbytes for tensor in made.values())


def write_pair(folder: Path) -> int:
    """The sample pair, made wider: about half a gigabyte. Returns its bytes."""
    target, draft = CONFIGS["qwen3"] | WIDE, CONFIGS["dflash"] | WIDE
    named = set(TargetConfig.model_fields) & set(target) - {"bos_token_id", "eos_token_id"}
    fields = {name: target[name] for name in named}
    layout = target_layout(TargetConfig(architecture="Qwen3ForCausalLM", **fields))
    judged = judge_file(DraftFile(draft, Source("draft", "wide")), Outcome())
    assert judged.reading is not None
    assert judged.reading.record is not None
    written = write_model(folder / "target", target, layout)
    return written + write_model(folder / "draft", draft, draft_layout(judged.reading.record))


def test_the_ledger_accounts_for_the_resident_memory_of_the_process(tmp_path: Path) -> None:
    if read_host().available_bytes < 3 * 2**30:
        pytest.skip("the pair and its pool take 1.3 GB, in a limit that leaves room for them")
    # In a process of its own, which takes with it what the C library keeps of so many weights.
    command = [sys.executable, "-m", "tests.test_ledger_process", str(tmp_path)]
    env = environment(tmp_path)
    weights_bytes = int(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
    assert weights_bytes > 400 * MIB
    process = start(
        tmp_path, "--target", "target", "--draft", "draft", "--device", "cpu", *SMALL,
        "--kv-cache-memory-bytes", "512MiB", "--report-file", "report.json",
    )  # fmt: skip
    try:
        read_until(process, "ready:")
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/self").symlink_to(f"/proc/{process.pid}")
        resident = resident_bytes(tmp_path / "proc")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    memory = json.loads((tmp_path / "report.json").read_text())["memory"]
    ledger = {line["line"]: line for line in memory["ledger"]}
    held = [ledger[name] for name in ("target weights", "draft weights", "KV pool")]
    assert all(line["billed_bytes"] == line["measured_bytes"] for line in held)
    assert sum(line["measured_bytes"] for line in held[:2]) == weights_bytes
    counted = sum(line["measured_bytes"] for line in held)
    assert abs(counted + ledger["runtime"]["measured_bytes"] - resident) * 50 < resident
    billed_before = counted + ledger["runtime"]["billed_bytes"]
    assert abs(billed_before - resident) < max(RESIDENT_NOISE_BYTES, resident // 50)
    assert memory["unexplained_bytes"] == ledger["runtime"]["difference_bytes"]


if __name__ == "__main__":
    sys.stdout.write(str(write_pair(Path(sys.argv[1]))))
