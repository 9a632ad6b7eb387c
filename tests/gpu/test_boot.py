"""What only a GPU can show of a boot: contexts, totals, real allocations, refusals."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import environment, run

BOOT = ("--target", "sample:qwen3", "--device", "cuda", "--exit-after-boot")
JSON = ("--output-format", "json")

# Large blocks of the caching allocator are rounded up to 2 MiB: one for each model's cache.
ROUNDING_BYTES = 2 * 2 * 2**20

_CONTEXT = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
free = lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).free
before = free()
pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
after_queries = free()
import torch
torch.cuda.mem_get_info(0)
print(before - after_queries, after_queries - free())
"""

_REFUSAL = """
import sys
from server.process import main
code = main(["--target", "nowhere", "--draft", "sample:dspine"])
mapped = any("libcuda.so" in line for line in open("/proc/self/maps"))
sys.exit("libcuda was loaded" if mapped else code)
"""


def script(text: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env=environment(cache),
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nvml_leaves_no_context_and_the_first_memory_query_makes_one(tmp_path: Path) -> None:
    done = script(_CONTEXT, tmp_path)
    assert done.returncode == 0, done.stderr
    by_nvml, by_cuda = map(int, done.stdout.split())
    print(f"NVML queries took {by_nvml:,} bytes, the CUDA context {by_cuda:,} bytes")
    assert by_nvml == 0
    assert by_cuda > 0


def test_cuda_and_nvml_agree_on_the_device_and_cuda_has_less() -> None:
    import pynvml
    import torch

    uuid = str(torch.cuda.get_device_properties(0).uuid)
    pynvml.nvmlInit()
    try:
        full = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(full)
        nvml_total = pynvml.nvmlDeviceGetMemoryInfo(handle).total
    finally:
        pynvml.nvmlShutdown()
    cuda_total = torch.cuda.mem_get_info(0)[1]
    print(f"UUID as torch has it {uuid}; NVML total {nvml_total:,}, CUDA total {cuda_total:,}")
    assert cuda_total < nvml_total


@pytest.mark.parametrize("draft", ["sample:dflash", "sample:dspark"])
def test_boot_bills_what_the_allocator_takes(tmp_path: Path, draft: str) -> None:
    done = run(*BOOT, "--draft", draft, *JSON, cache=tmp_path)
    assert done.code == 0, done.stdout + done.stderr
    report = done.json
    memory = report["memory"]
    lines = {line["line"]: line for line in memory["ledger"]}
    print({name: (line["billed_bytes"], line["measured_bytes"]) for name, line in lines.items()})
    assert sum(line["billed_bytes"] for line in lines.values()) == memory["limit_bytes"]
    pool = lines["KV pool"]
    assert 0 <= pool["measured_bytes"] - pool["billed_bytes"] <= ROUNDING_BYTES
    assert report["self_test"]["paged_steps"] == report["self_test"]["speculative_steps"] == 28


@pytest.mark.parametrize("utilization", ["1.0", "0.00001"])
def test_all_of_the_device_and_less_than_the_weights_refuse_cleanly(
    tmp_path: Path, utilization: str
) -> None:
    done = run(*BOOT, "--gpu-memory-utilization", utilization, cache=tmp_path)
    assert done.code in (69, 75), done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^error\[SD50\d\]", done.stderr, re.MULTILINE)


def test_a_dspine_refusal_does_not_even_map_the_driver_library(tmp_path: Path) -> None:
    done = script(_REFUSAL, tmp_path)
    assert done.returncode == 78, done.stderr
