"""What only a GPU can show: contexts, totals, real allocations, refusals on the device."""

import re
from pathlib import Path

import pytest

from tests.process import run

BOOT = ("--target", "sample:qwen3", "--device", "cuda", "--exit-after-boot")
JSON = ("--output-format", "json")


def libcuda_is_mapped() -> str:
    return "any('libcuda.so' in line for line in open('/proc/self/maps'))"


def test_nvml_leaves_no_context_and_the_first_memory_query_makes_one() -> None:
    import pynvml
    import torch

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        before = pynvml.nvmlDeviceGetMemoryInfo(handle)
        if not torch.cuda.is_initialized():
            torch.cuda.mem_get_info(0)
            after = pynvml.nvmlDeviceGetMemoryInfo(handle)
            cost = before.free - after.free
            print(f"CUDA context: {cost:,} bytes")
            assert cost > 0
    finally:
        pynvml.nvmlShutdown()


def test_cuda_and_nvml_agree_on_the_device_and_cuda_has_less(tmp_path: Path) -> None:
    import pynvml
    import torch

    uuid = str(torch.cuda.get_device_properties(0).uuid)
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(
            uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        )
        nvml_total = pynvml.nvmlDeviceGetMemoryInfo(handle).total
    finally:
        pynvml.nvmlShutdown()
    cuda_total = torch.cuda.mem_get_info(0)[1]
    print(f"NVML total {nvml_total:,}, CUDA total {cuda_total:,}")
    assert cuda_total < nvml_total


@pytest.mark.parametrize("draft", ["sample:dflash", "sample:dspark"])
def test_boot_bills_what_the_allocator_takes(tmp_path: Path, draft: str) -> None:
    done = run(*BOOT, "--draft", draft, *JSON, cache=tmp_path)
    assert done.code == 0, done.stderr
    memory = done.json["memory"]
    lines = {line["line"]: line for line in memory["ledger"]}
    assert sum(line["billed_bytes"] for line in lines.values()) == memory["limit_bytes"]
    pool = lines["KV pool"]
    # Large blocks are rounded up to 2 MiB by the caching allocator, one per model.
    assert 0 <= pool["measured_bytes"] - pool["billed_bytes"] <= 2 * 2 * 2**20


def test_utilization_of_one_and_below_the_weights_refuse_cleanly(tmp_path: Path) -> None:
    for utilization in ("1.0", "0.00001"):
        done = run(*BOOT, "--gpu-memory-utilization", utilization, cache=tmp_path)
        assert done.code in (69, 75), done.stderr
        assert "Traceback" not in done.stderr
        assert re.search(r"^error\[SD50\d\]", done.stderr, re.MULTILINE)


def test_a_dspine_refusal_leaves_no_cuda_context_behind(tmp_path: Path) -> None:
    """The driver library is not even mapped into the process that refused."""
    probe = (
        "import sys; from server.startup import main\n"
        f"code = main(['--target', 'nowhere', '--draft', 'sample:dspine'])\n"
        f"assert not {libcuda_is_mapped()}, 'libcuda was loaded'\nsys.exit(code)\n"
    )
    import subprocess
    import sys

    from tests.process import environment

    done = subprocess.run(
        [sys.executable, "-c", probe],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78, done.stderr
