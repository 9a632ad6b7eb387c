"""Which exceptions mean that a device has no memory left. Nothing else may be called that."""

import torch

# Torch's host allocator, and the C++ libraries below it.
_HOST_MARKS = ("DefaultCPUAllocator", "bad_alloc")


def out_of_memory(error: BaseException) -> bool:
    """True for torch's out-of-memory error, Python's, and that of torch's host allocator.

    The host allocator raises a plain RuntimeError that only its text tells apart. Servers that
    took any error for this one hid the cause (huggingface/text-generation-inference issue 1164).
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _HOST_MARKS)
