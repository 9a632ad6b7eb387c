"""Every value that is no number is counted, and no sum of numbers is taken for one."""

import pytest
import torch

from server.memory.host_source import StorageCounter
from server.weights.finite import not_finite
from tests.weights.test_load import DTYPES

BITS = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00}


@pytest.mark.parametrize("dtype", list(BITS))
def test_every_bit_pattern_is_judged_right(dtype: torch.dtype) -> None:
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32)
    values = patterns.to(torch.int16).view(dtype)
    known = int(((patterns & 0x7FFF) >= BITS[dtype]).sum())
    assert not_finite(values) == known
    for pattern in patterns[:: 2**9 - 1].tolist():
        alone = torch.full((3,), pattern, dtype=torch.int32).to(torch.int16).view(dtype)
        assert (not_finite(alone) == 3) == ((pattern & 0x7FFF) >= BITS[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_that_overflows_is_none(dtype: torch.dtype) -> None:
    values = torch.full((10_000,), torch.finfo(dtype).max, dtype=dtype)
    assert not_finite(values) == 0
    values[::2] *= -1
    assert not_finite(values) == 0
    values[9_999] = float("nan")
    values[0] = float("-inf")
    assert not_finite(values) == 2


def test_a_second_look_copies_a_part_at_a_time() -> None:
    values = torch.full((2**24 + 3,), torch.finfo(torch.float16).max, dtype=torch.float16)
    values[:: 2**22] = float("nan")
    values[-1] = float("inf")
    with StorageCounter() as counter:
        assert not_finite(values) == 6
    assert counter.peak_bytes < values.nbytes // 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_that_cancel_are_counted(dtype: torch.dtype) -> None:
    values = torch.zeros(1000, dtype=dtype)
    values[3], values[997] = float("inf"), float("-inf")
    assert not_finite(values) == 2
    assert not_finite(torch.zeros(0, dtype=dtype)) == 0
