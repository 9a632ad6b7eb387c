"""Flags of other engines that must not be taken for ours, each with what to use instead."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Foreign(NamedTuple):
    """A flag of another engine that this server does not have: why not, and what to do."""

    reason: str
    fix: str


_LOOPBACK = Foreign(
    "opens a port to other machines, and this server listens on 127.0.0.1 only",
    "leave it out; --port PORT answers on 127.0.0.1",
)
_NO_REQUESTS = Foreign(
    "is about serving requests, and this server loads and holds but serves none",
    "leave it out",
)
_FREE_AFTER = Foreign(
    "is TensorRT-LLM's fraction of the memory that is free after loading",
    "--gpu-memory-utilization FRACTION, of the device's total memory, or "
    "--kv-cache-memory-bytes BYTES",
)
_TRAINED_BLOCK = Foreign(
    "sets the draft's block size, which is trained: it is read from the draft's config",
    "leave it out; --num-speculative-tokens TOKENS drafts fewer tokens in a step",
)

FOREIGN: Mapping[str, Foreign] = MappingProxyType(
    {
        "--mem-fraction-static": Foreign(
            "is SGLang's fraction of the memory that is free before loading",
            "--gpu-memory-utilization FRACTION, of the device's total memory",
        ),
        "--free-gpu-memory-fraction": _FREE_AFTER,
        "--kv-cache-free-gpu-memory-fraction": _FREE_AFTER,
        "--speculative-algorithm": Foreign(
            "names an algorithm of SGLang, which is more than the drafter's family",
            "--spec-method auto, or the family: --spec-method dflash",
        ),
        "--speculative-config": Foreign(
            "holds several settings in JSON, and here each one is a flag",
            "--draft NAME|PATH, with --num-speculative-tokens TOKENS where it is wanted",
        ),
        "--speculative-dflash-block-size": _TRAINED_BLOCK,
        "--speculative-dspark-block-size": _TRAINED_BLOCK,
        "--pipeline-parallel-size": Foreign(
            "gives whole layers to each device, and this server splits every layer",
            "--tensor-parallel-size RANKS",
        ),
        "--trust-remote-code": Foreign(
            "would run code from a checkpoint, and this server never does", "leave it out"
        ),
        "--quantization": Foreign(
            "asks for quantised weights, and this server serves none",
            "leave it out, and name a checkpoint in bfloat16, float16 or float32",
        ),
        "--host": _LOOPBACK,
        "--served-model-name": _NO_REQUESTS,
    }
)
# Of those above, the ones that are typed without a value.
FOREIGN_SWITCHES = ("--trust-remote-code",)
