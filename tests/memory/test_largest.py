"""The largest step, judged before anything is loaded: which flag is too large, and what fits."""

import pytest

from server.config.geometry import DTYPE_BYTES
from server.config.records import BlockDraft, TargetConfig
from server.findings import ExitCode
from server.memory.kv_layout import kv_layout
from server.memory.largest import RowBytes, row_bytes, too_large, too_many
from server.memory.predict import Pair, predict
from server.memory.profile import Workload
from server.memory.shape import RunShape
from server.model.steps import StepShape
from server.options import MAX_REQUESTS
from server.weights.parts import Share, part_config
from tests.memory.make import make_draft, make_facts, make_target
from tests.model.tiny import make_draft as make_small_draft
from tests.model.tiny import make_dspark, make_target_config

ROWS = RowBytes(prefill=10, verify=100)
SHAPE = RunShape(50, 3, 4, {"max_num_seqs": "env SERVER_MAX_NUM_SEQS"})
PAIRS = {
    "Qwen3-8B and its draft": (make_target(), make_draft()),
    "Qwen3-8B alone": (make_target(), None),
    "wide, with few logits": (make_target_config(intermediate_size=4096), make_small_draft()),
    "a small DSpark": (make_target_config(), make_dspark()),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_a_row_takes_no_less_than_is_said_before(name: str, ranks: int, dtype: str) -> None:
    target, draft = PAIRS[name]
    found, share = rows_of(target, draft, ranks, dtype), Share(ranks - 1, ranks)
    verify = 1 if draft is None else draft.verify_tokens
    step = StepShape(prefill_tokens=512, num_seqs=32, verify_tokens=verify, max_model_len=64)
    part = None if draft is None else part_config(draft, share)
    layout = kv_layout(part_config(target, share), part, DTYPE_BYTES[dtype], 16)
    work = Workload(layout, step)
    prefill, second = predict(make_facts(), Pair(target, draft, share), work, dtype)
    assert found.prefill * 512 <= prefill.peak_bytes < 20 * found.prefill * 512
    assert found.verify * 32 * verify <= second.peak_bytes < 20 * found.verify * 32 * verify


def rows_of(target: TargetConfig, draft: BlockDraft | None, ranks: int, dtype: str) -> RowBytes:
    return row_bytes(target, draft, DTYPE_BYTES[dtype], Share(ranks - 1, ranks))


def test_the_logits_of_a_large_vocabulary_are_most_of_a_verify_row() -> None:
    found = rows_of(make_target(), make_draft(), 1, "bfloat16")
    assert found.verify == 2 * (4096 * 6 + 151936)
    assert found.prefill == 8 + 2 * (4096 * 6 + 3 * 12288)


def test_each_flag_is_told_with_its_value_and_with_what_fits() -> None:
    tokens, seqs = too_large(SHAPE, ROWS, 499, 64)
    assert tokens.message == (
        "--max-num-batched-tokens is 50: a prefill step of 50 rows takes at least 500 bytes, there "
        "is room for 499 bytes"
    )
    assert tokens.fix.startswith("--max-num-batched-tokens 49 or less; ")
    assert seqs.message == (
        "--max-num-seqs is 3: a verify step of 15 rows takes at least 1.46 KiB, there is room for "
        "499 bytes"
    )
    assert "a larger device" in seqs.fix
    assert (seqs.locations[0].flag, seqs.locations[0].value) == ("--max-num-seqs", 3)
    assert seqs.locations[0].source == "env SERVER_MAX_NUM_SEQS"
    assert {found.rule for found in (tokens, seqs)} == {"SD504"}
    assert seqs.exit_code is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(("room", "flags"), [(1500, 0), (1499, 1), (500, 1), (499, 2)])
def test_what_fits_to_the_byte_is_not_told(room: int, flags: int) -> None:
    assert len(too_large(SHAPE, ROWS, room, 64)) == flags


@pytest.mark.parametrize("room", [500, 999, 1000, 1499])
def test_what_is_said_to_fit_does(room: int) -> None:
    (found,) = too_large(SHAPE, ROWS, room, 64)
    most = int(found.fix.split()[1])
    assert too_large(RunShape(50, most, 4, {}), ROWS, room, 64) == ()
    assert len(too_large(RunShape(50, most + 1, 4, {}), ROWS, room, 64)) == 1


def test_what_is_said_to_fit_is_no_more_than_is_served_at_once() -> None:
    absurd = RunShape(10**9, 10**9, 4, {})
    tokens, seqs = too_large(absurd, ROWS, 10**9, 10)
    assert tokens.fix.startswith(f"--max-num-batched-tokens {MAX_REQUESTS * 10} or less; ")
    assert seqs.fix.startswith(f"--max-num-seqs {MAX_REQUESTS} or less; ")


def test_a_prefill_of_more_requests_than_are_served_at_once_is_a_conflict() -> None:
    most = MAX_REQUESTS * 10
    assert too_many(RunShape(most, 1, 0, {}), 10) == ()
    (found,) = too_many(RunShape(most + 1, 1, 0, {}), 10)
    assert found.rule == "SD705"
    assert found.message == (
        f"--max-num-batched-tokens is {most + 1}, and no request is longer than 10 tokens: a step "
        f"would have {MAX_REQUESTS + 1} requests, at most {MAX_REQUESTS} are served"
    )
    assert found.fix.startswith(f"--max-num-batched-tokens {most} or less")
