"""Rules 7xx: flags and SERVER_* variables, and the report file."""

from tests.rules.example import Example
from tests.rules.make_boot import Boot
from tests.rules.make_case import make_example
from tests.rules.make_command import Typed
from tests.rules.make_files import beside

_REPORT = "--check --report-file out/report.json"
_TORCHRUN = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 LOCAL_RANK=0 RANK=0"

EXAMPLES: tuple[Example, ...] = (
    make_example("SD701", Typed("--spec-method dflash"), Typed("--spec-method auto")),
    make_example("SD703", Typed("--max-model-length 4096"), Typed("--max-model-len 4096")),
    make_example(
        "SD704",
        Typed("--gpu-memory-utilization 1.01"),
        Typed("--gpu-memory-utilization 1.00"),
    ),
    make_example(
        "SD705",
        Typed("--max-model-len 4096 --context-length 4097"),
        Typed("--max-model-len 4096 --context-length 4096"),
    ),
    make_example(
        "SD706",
        Typed(variable="SERVER_MAX_NUM_SEQS=0"),
        Typed(variable="SERVER_MAX_NUM_SEQS=1"),
    ),
    make_example(
        "SD707",
        Boot((beside("out", there=False),), _REPORT),
        Boot((beside("out", there=True),), _REPORT),
    ),
    make_example(
        "SD708",
        Typed("--assume-gpu a100-80g"),
        Typed("--plan --assume-gpu a100-80g"),
    ),
    make_example(
        "SD709",
        Typed("--tensor-parallel-size 2", f"{_TORCHRUN} WORLD_SIZE=4"),
        Typed("--tensor-parallel-size 2", f"{_TORCHRUN} WORLD_SIZE=2"),
    ),
)
