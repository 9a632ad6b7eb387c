"""Weights as views of their files: nothing is copied, and the files must be left alone.

A disk that fails or a file that is cut short under such a view ends the process (SIGBUS), one
that is overwritten in place changes the weights of a running server; `load.py` copies instead.
"""

import mmap
import warnings

import torch

from server.limits import pass_on_limit
from server.weights.entries import TensorEntry
from server.weights.load_plan import TORCH_NAMES, LoadPlan
from server.weights.pieces import LoadError, open_files


def map_tensors(plan: LoadPlan) -> dict[str, torch.Tensor]:
    """The plan's tensors, read-only, in the dtype that they are stored in.

    They hold their mappings alive. Raises LoadError when a file is not as its header was read,
    or cannot be mapped.
    """
    with open_files(plan) as descriptors, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        files = {}
        for path, descriptor in descriptors.items():
            try:
                files[path] = mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
            except OSError as error:
                pass_on_limit(error)
                raise LoadError(f"cannot be mapped: {error.strerror}", path) from None
        return {entry.name: _view(entry, files[entry.file]) for entry in plan.entries}


def _view(entry: TensorEntry, file: mmap.mmap) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, TORCH_NAMES[entry.dtype])
    if not entry.numel:
        return torch.empty(entry.shape, dtype=dtype)
    if entry.begin % dtype.itemsize:
        # The format allows a header of any length; a kernel may not bear what follows from it.
        copy = bytearray(file[entry.begin : entry.begin + entry.size_bytes])
        return torch.frombuffer(copy, dtype=dtype).view(entry.shape)
    flat = torch.frombuffer(file, dtype=dtype, count=entry.numel, offset=entry.begin)
    return flat.view(entry.shape)
