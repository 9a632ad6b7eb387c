"""Rules 5xx: the largest size that is refused, and the smallest that is not, to the byte."""

from tests.memory.fake_machine import MIB
from tests.memory.make import ALONE, GIB, make_need
from tests.rules.example import Example
from tests.rules.make_boot import Boot
from tests.rules.make_case import make_example
from tests.rules.make_checkpoint import NORM, filled
from tests.rules.make_memory import Fit, Ledger, Pool, Sized, Step, row_of_step

_WEIGHTS = make_need().weights.target_bytes
_ALL = "--gpu-memory-utilization 1 --memory-margin-bytes 0"
_LENGTH = 40960
_SMALLEST = _WEIGHTS + ALONE.need_blocks(_LENGTH) * ALONE.block_bytes
_ROWS, _ROW_BYTES = 100, row_of_step()
_WHOLE = "--device cpu --exit-after-boot --max-num-batched-tokens 16 --max-num-seqs 1"

EXAMPLES: tuple[Example, ...] = (
    make_example("SD501", Fit(_ALL, _WEIGHTS - 1), Fit(_ALL, _WEIGHTS)),
    make_example("SD502", Fit(_ALL, _SMALLEST - 1), Fit(_ALL, _SMALLEST)),
    make_example(
        "SD503",
        Fit("--gpu-memory-utilization 0.9", 80 * GIB, 72 * GIB - 1),
        Fit("--gpu-memory-utilization 0.9", 80 * GIB, 72 * GIB),
    ),
    make_example(
        "SD504",
        Step(f"--max-num-batched-tokens {_ROWS + 1}", _ROWS * _ROW_BYTES),
        Step(f"--max-num-batched-tokens {_ROWS}", _ROWS * _ROW_BYTES),
    ),
    make_example(
        "SD505",
        Boot((), "--check --tensor-parallel-size 3"),
        Boot((), "--check --tensor-parallel-size 2"),
    ),
    make_example(
        "SD506",
        Boot((), "--check --max-model-len 65"),
        Boot((), "--check --max-model-len 64"),
    ),
    make_example("SD507", Ledger(other=10 * MIB + 1), Ledger(other=10 * MIB)),
    make_example("SD508", Ledger(pool=16 * MIB + 1), Ledger(pool=16 * MIB)),
    make_example("SD509", Pool(41), Pool(39)),
    # With 1 as its last norm, this model's logits are below 16. BF16 and F32 end at 2^128.
    make_example(
        "SD510",
        Boot((filled(NORM, 1.5 * 2.0**125),), _WHOLE, phase="self-test"),
        Boot((filled(NORM, 2.0**124),), _WHOLE, phase="self-test"),
    ),
    make_example("SD511", Sized("--max-model-len 5680"), Sized("--max-model-len 5696")),
    make_example(
        "SD512",
        Step("--memory-margin-bytes 10MiB", 100 * MIB, taken=10 * MIB + 1),
        Step("--memory-margin-bytes 10MiB", 100 * MIB, taken=10 * MIB),
    ),
)
