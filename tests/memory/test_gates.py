"""The two memory gates: each rule with an input that fires it and the nearest that does not."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.findings import CheckStatus, ExitCode, Outcome, exit_code_of
from server.memory.facts import DeviceKind
from server.memory.gates import GateResult, Measured, gate_a, gate_b, measured_rank
from server.memory.need import WeightBytes
from server.memory.nvml import Tenant
from server.memory.shape import RunShape
from tests.memory.make import (
    GIB,
    errors,
    make_draft,
    make_facts,
    make_need,
    make_options,
    only,
    rules,
    status,
)

ONE = Fraction(1)
NO_MARGIN = {"memory_margin_bytes": 0, "gpu_memory_utilization": ONE}
LOWER_BOUND = "the largest step, measured after the load, may need more"
TARGET_BYTES, DRAFT_BYTES = 16_381_470_720, 2_097_252_864
NEED_BYTES = 6_042_157_056  # one request of 40,960 tokens, no drafter


def gate_a_at(total_bytes: int, draft: bool = False, **options: object) -> GateResult:
    facts = make_facts(total_bytes=total_bytes, free_bytes=total_bytes)
    need = make_need(make_draft() if draft else None)
    return gate_a(facts, need, make_options(**{**NO_MARGIN, **options}))


def billed(result: GateResult) -> dict[str, int]:
    assert result.memory is not None
    return {line.line: line.billed_bytes for line in result.memory.ledger}


def test_sd501_weights_one_byte_above_the_limit() -> None:
    refused = gate_a_at(TARGET_BYTES - 1)
    assert errors(refused.outcome) == ["SD501"]
    assert exit_code_of(refused.outcome.findings) is ExitCode.UNAVAILABLE
    assert only(refused.outcome).message == (
        "weights take 16381470720 bytes, the limit is 16381470719 bytes"
    )
    assert status(refused.outcome, "SD502") is CheckStatus.SKIP
    # The weights fit: now it is the pool that does not.
    assert errors(gate_a_at(TARGET_BYTES).outcome) == ["SD502"]


def test_sd502_a_pool_larger_than_the_room_is_told_as_what_the_operator_asked() -> None:
    block_bytes = 16 * 147_456
    room = TARGET_BYTES + 100 * block_bytes
    refused = gate_a_at(room, max_model_len=1, kv_cache_memory_bytes=101 * block_bytes)
    assert only(refused.outcome).message.startswith(
        "--kv-cache-memory-bytes asks for 101 KV blocks ("
    )
    granted = gate_a_at(room, max_model_len=1, kv_cache_memory_bytes=100 * block_bytes)
    assert errors(granted.outcome) == []
    short = gate_a_at(room, max_model_len=1, kv_cache_memory_bytes=block_bytes)
    assert only(short.outcome).message.startswith("1 token needs 2 KV blocks")


def test_sd501_counts_the_drafts_weights() -> None:
    assert errors(gate_a_at(TARGET_BYTES + 5, draft=True).outcome) == ["SD501"]
    assert errors(gate_a_at(TARGET_BYTES + DRAFT_BYTES, draft=True).outcome) == ["SD502"]


def test_sd502_one_byte_below_the_smallest_pool() -> None:
    refused = gate_a_at(TARGET_BYTES + NEED_BYTES - 1)
    found = only(refused.outcome)
    assert found.rule == "SD502"
    assert found.message == (
        "40960 tokens need 2561 KV blocks (6042157056 bytes), 2560 fit (6042157055 bytes)"
    )
    assert found.fix == f"--max-model-len 40944 (the most that fits); {LOWER_BOUND}"
    values = {where.role: where.value for where in found.locations}
    assert (values["need"], values["have"], values["missing"]) == (NEED_BYTES, NEED_BYTES - 1, 1)
    assert values["longest"] == 40_944
    accepted = gate_a_at(TARGET_BYTES + NEED_BYTES)
    assert accepted.outcome.findings == ()
    assert status(accepted.outcome, "SD502") is CheckStatus.PASS


def test_the_margin_is_part_of_what_cannot_fit() -> None:
    total = TARGET_BYTES + NEED_BYTES
    assert errors(gate_a_at(total, memory_margin_bytes=1).outcome) == ["SD502"]
    assert errors(gate_a_at(total + 1, memory_margin_bytes=1).outcome) == []


def test_a_refusal_carries_the_ledger_of_what_is_needed() -> None:
    assert billed(gate_a_at(TARGET_BYTES)) == {
        "runtime": 0,
        "target weights": TARGET_BYTES,
        "activation": 0,
        "margin": 0,
        "KV pool": NEED_BYTES,
        "unused": 0,
    }


def test_auto_length_is_refused_only_when_no_block_is_left() -> None:
    smallest = TARGET_BYTES + 2 * 2_359_296
    refused = gate_a_at(smallest - 1, auto_max_model_len=True)
    assert errors(refused.outcome) == ["SD502"]
    assert only(refused.outcome).fix.startswith("no length and no utilization fits here")
    assert errors(gate_a_at(smallest, auto_max_model_len=True).outcome) == []


def test_sd503_another_process_holds_12_of_80_gib() -> None:
    facts = make_facts(free_bytes=68 * GIB, tenants=(Tenant(4711, 12 * GIB),))
    refused = gate_a(facts, make_need(), make_options())
    found = only(refused.outcome)
    assert found.rule == "SD503"
    assert found.exit_code is ExitCode.TEMPFAIL
    assert found.message == "the limit is 72.00 GiB, free is 68.00 GiB"
    assert found.fix == (
        "wait until other processes release 4.00 GiB, or --gpu-memory-utilization 0.85 (the most "
        f"that is free); {LOWER_BOUND}"
    )
    assert any(where.source == "host pid 4711, in bytes" for where in found.locations)


def test_sd503_counts_what_this_process_holds_as_its_own() -> None:
    need, options = make_need(), make_options()
    facts = make_facts(free_bytes=71 * GIB, own_bytes=GIB)
    assert errors(gate_a(facts, need, options).outcome) == []
    less = replace(facts, own_bytes=GIB - 1)
    assert errors(gate_a(less, need, options).outcome) == ["SD503"]


def test_a_change_that_others_keep_from_fitting_is_told_as_that() -> None:
    options = make_options(gpu_memory_utilization=Fraction("0.25"))
    facts = make_facts(free_bytes=20 * GIB)  # the limit, of which the weights take 15.26 GiB
    found = only(gate_a(facts, make_need(), options).outcome)
    assert found.fix == f"--max-model-len 33456 (the most that fits); {LOWER_BOUND}"
    found = only(gate_a(replace(facts, free_bytes=20 * GIB - 1), make_need(), options).outcome)
    assert found.rule == "SD502"
    assert found.fix == (
        "once other processes have released memory: --max-model-len 33456 (the most that fits) "
        f"or --gpu-memory-utilization 0.27 (the least that is enough); {LOWER_BOUND}"
    )


def test_sd503_names_no_utilization_when_none_fits() -> None:
    facts = make_facts(free_bytes=20 * GIB)
    found = only(gate_a(facts, make_need(), make_options()).outcome)
    assert found.rule == "SD503"
    assert found.fix == "wait until other processes release 52.00 GiB"


def test_before_cuda_only_what_cannot_fit_in_the_free_memory_is_busy() -> None:
    """NVML's total is above CUDA's, so a limit computed from it proves nothing."""
    lowest = TARGET_BYTES + NEED_BYTES + 150 * 2**20
    facts = make_facts(exact=False, free_bytes=lowest)
    assert errors(gate_a(facts, make_need(), make_options()).outcome) == []
    less = replace(facts, free_bytes=lowest - 1)
    assert errors(gate_a(less, make_need(), make_options()).outcome) == ["SD503"]


def test_what_can_never_fit_is_told_before_what_is_busy() -> None:
    facts = make_facts(total_bytes=16 * GIB, free_bytes=1)
    assert errors(gate_a(facts, make_need(), make_options()).outcome) == ["SD501"]


def test_without_a_total_the_fit_is_skipped_with_the_reason() -> None:
    facts = make_facts(kind=DeviceKind.UNDECIDED, total_bytes=None, free_bytes=None)
    result = gate_a(facts, make_need(), make_options())
    assert result.outcome.findings == ()
    assert result.memory is None
    reasons = {check.rule: check.reason for check in result.outcome.checks}
    assert reasons["SD501"] == "the device's memory is not known yet"


def shape_of(seqs: int) -> RunShape:
    return RunShape(8192, seqs, 0, {})


def gate_b_at(free_bytes: int, seqs: int = 64, **options: object) -> GateResult:
    """Gate B on an 80 GiB device: 1 GiB of runtime, 2 GiB of activation."""
    measured = Measured(GIB, 2 * GIB, free_bytes)
    return gate_b(make_facts(), make_need(), make_options(**options), shape_of(seqs), measured)


def test_gate_b_bills_every_line_up_to_the_limit() -> None:
    result = gate_b_at(60 * GIB)
    assert result.plan is not None
    lines = billed(result)
    assert lines["runtime"] == GIB
    assert lines["activation"] == 2 * GIB
    assert lines["margin"] == 150 * 2**20
    assert sum(lines.values()) == 72 * GIB
    assert result.plan.kv.max_model_len == 40_960
    assert result.memory is not None
    assert result.memory.kv == result.plan.kv
    assert result.memory.utilization == "0.9"


def test_what_another_instance_holds_is_not_billed_to_this_one() -> None:
    """Two instances of 0.45 fit on one device, and the second has as large a pool."""
    half = Fraction("0.45")
    first = gate_b_at(63 * GIB, gpu_memory_utilization=half)
    second = gate_b_at(63 * GIB - 36 * GIB, gpu_memory_utilization=half)
    assert first.plan is not None
    assert first.memory == second.memory


def test_gate_b_shrinks_the_pool_when_others_took_memory_meanwhile() -> None:
    roomy, tight = gate_b_at(60 * GIB).plan, gate_b_at(20 * GIB).plan
    assert roomy is not None
    assert tight is not None
    room_bytes = 20 * GIB - 2 * GIB - 150 * 2**20
    assert tight.num_blocks == room_bytes // 2_359_296 < roomy.num_blocks


def test_gate_b_refuses_as_busy_when_the_smallest_pool_has_no_room() -> None:
    smallest = NEED_BYTES + 2 * GIB + 150 * 2**20
    refused = gate_b_at(smallest - 1)
    assert refused.plan is None
    assert errors(refused.outcome) == ["SD503"]
    assert gate_b_at(smallest).plan is not None


def test_of_several_ranks_the_busy_one_is_told() -> None:
    need, options, shape = make_need(), make_options(), shape_of(64)
    figures = [Measured(GIB, 2 * GIB, free) for free in (60 * GIB, 4 * GIB)]
    ranks = tuple(measured_rank(make_facts(), need, options, each) for each in figures)
    refused = gate_b(make_facts(), need, options, shape, replace(figures[0], ranks=ranks))
    (free,) = [place for place in only(refused.outcome).locations if place.role == "free"]
    assert (errors(refused.outcome), free.value) == (["SD503"], ranks[1].ceiling_bytes)
    assert ranks[1].ceiling_bytes == 5 * GIB + TARGET_BYTES


@pytest.mark.parametrize("free_gib", [60, 1])
def test_of_several_devices_the_one_that_limits_is_shown(free_gib: int) -> None:
    need, options, shape = make_need(), make_options(), shape_of(64)
    large = make_facts(tenants=(Tenant(1, 1),))
    total = 19 * GIB if free_gib == 60 else 80 * GIB
    small = make_facts(index=1, name="SMALL", total_bytes=total, tenants=(Tenant(4711, GIB),))
    figures = [Measured(GIB, 2 * GIB, free * GIB) for free in (60, free_gib)]
    ranks = tuple(
        measured_rank(facts, need, options, each)
        for facts, each in zip((large, small), figures, strict=True)
    )
    all_of_them = replace(figures[0], ranks=ranks, devices=(large, small))
    refused = gate_b(large, need, options, shape, all_of_them)
    assert errors(refused.outcome) == ["SD502" if free_gib == 60 else "SD503"]
    found = {place.role: place for place in only(refused.outcome).locations}
    assert found["device"].value == total
    assert found["device"].source == "rank 1: cuda:1 SMALL, total"
    assert refused.memory is not None
    assert (refused.memory.device, refused.memory.total_bytes) == ("cuda:1 SMALL", total)
    assert sum(billed(refused).values()) >= refused.memory.limit_bytes == total * 9 // 10
    if free_gib == 1:
        assert found["tenant"].source == "host pid 4711, in bytes"


def test_where_the_pool_fits_each_rank_keeps_its_own_device() -> None:
    need, options = make_need(), make_options()
    small = make_facts(index=1, name="SMALL", total_bytes=40 * GIB)
    figures = Measured(GIB, 2 * GIB, 24 * GIB)
    ranks = tuple(measured_rank(f, need, options, figures) for f in (make_facts(), small))
    both = replace(figures, ranks=ranks, devices=(make_facts(), small))
    decided = gate_b(make_facts(), need, options, shape_of(64), both)
    assert decided.plan is not None
    assert decided.plan.limiting_rank == 1
    assert decided.memory is not None
    assert decided.memory.device == make_facts().label


def test_gate_b_refuses_a_pool_that_the_limit_does_not_allow() -> None:
    refused = gate_b_at(60 * GIB, gpu_memory_utilization=Fraction("0.30"))
    found = only(refused.outcome)
    assert found.rule == "SD502"
    assert found.fix == (
        "--max-model-len 40736 (the most that fits) or --gpu-memory-utilization 0.31 (the least "
        "that is enough)"
    )


def test_of_two_sizes_for_the_pool_it_is_told_which_is_which() -> None:
    total = TARGET_BYTES + 2 * NEED_BYTES
    found = only(gate_a_at(total, kv_cache_memory_bytes=3 * NEED_BYTES).outcome)
    assert found.fix == (
        f"--kv-cache-memory-bytes {2 * NEED_BYTES} (the most that fits) or --kv-cache-memory-bytes "
        f"{NEED_BYTES} (the least that serves 40960 tokens); {LOWER_BOUND}"
    )


@pytest.mark.parametrize(("length", "expected"), [(5_696, []), (5_680, ["SD511"])])
def test_sd511_more_than_5_percent_idle(length: int, expected: list[str]) -> None:
    """64 requests of 356 blocks leave less than 3.60 GiB of 72 unused, of 355 blocks more."""
    assert rules(gate_b_at(60 * GIB, max_model_len=length).outcome) == expected


def test_idle_memory_is_a_note_with_the_reason() -> None:
    found = only(gate_b_at(60 * GIB, 1).outcome)
    assert found.message == "47.97 GiB of 72.00 GiB stay unused"
    sources = [where.source for where in found.locations]
    assert "tokens, all that 1 requests of 40960 can use" in sources


sizes = st.integers(0, 90 * GIB)


@given(
    total=st.integers(GIB, 90 * GIB),
    free=sizes,
    runtime=st.integers(0, 4 * GIB),
    activation=st.integers(0, 8 * GIB),
    weights=st.integers(0, 40 * GIB),
    hundredths=st.integers(1, 100),
)
def test_i16_gate_a_accepts_everything_that_gate_b_accepts(
    total: int, free: int, runtime: int, activation: int, weights: int, hundredths: int
) -> None:
    """On one state of the device, with the limit not above what is free (that is SD503 alone)."""
    need = replace(make_need(), weights=WeightBytes(weights))
    options = make_options(gpu_memory_utilization=Fraction(hundredths, 100))
    before = min(total, free + weights)
    facts = make_facts(total_bytes=total, free_bytes=before, own_bytes=runtime)
    measured = Measured(runtime, activation, before - weights)
    late = gate_b(facts, need, options, shape_of(64), measured)
    if late.plan is not None:
        early = gate_a(facts, need, options).outcome
        assert errors(early) in ([], ["SD503"])
        if errors(early):
            assert total * hundredths // 100 > before + runtime


@given(free=sizes, more=sizes)
def test_i15_more_free_memory_never_refuses(free: int, more: int) -> None:
    if gate_b_at(free).plan is not None:
        assert gate_b_at(free + more).plan is not None


def test_i12_the_kind_of_device_changes_no_number() -> None:
    results = []
    for kind in DeviceKind:
        facts = make_facts(kind=kind)
        measured = Measured(GIB, GIB, 60 * GIB)
        results.append(gate_b(facts, make_need(), make_options(), shape_of(4), measured))
    reports = [r.memory._replace(device="") for r in results if r.memory]
    assert len(reports) == 3
    assert reports[0] == reports[1] == reports[2]
    assert isinstance(results[0].outcome, Outcome)
    assert results[0].outcome == results[1].outcome == results[2].outcome
