"""GPU tests run on compute capability 8.0; elsewhere they are skipped and say why.

SERVER_GPU_TESTS=any lets any CUDA device of capability 8.0 or higher run them.
SERVER_GPU_REQUIRED=1 (the GPU job) turns a skip into a failure.
"""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def missing_device() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device"
    found = torch.cuda.get_device_capability()
    if os.environ.get("SERVER_GPU_TESTS") == "any":
        return None if found >= (8, 0) else f"compute capability {found} is below 8.0"
    if found == (8, 0):
        return None
    return f"compute capability {found} is not (8, 0); SERVER_GPU_TESTS=any runs them here"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if HERE in Path(item.path).parents]
    reason = missing_device() if here else None
    if reason and os.environ.get("SERVER_GPU_REQUIRED") == "1":
        raise pytest.UsageError(f"GPU tests are required and cannot run: {reason}")
    for item in here:
        item.add_marker(pytest.mark.sm_80)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"needs an sm_80 GPU: {reason}"))
