"""The numeric cases of the sizing note: geometry, blocks, limits. Every number is a literal."""
# ruff: noqa: ANN401  (fields of any type are changed by name)

from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch

from server.config.geometry import KvGeometry, kv_geometry
from server.config.pair import Asked, judge_pair
from server.config.records import TargetConfig
from server.config.shard import judge_ranks, valid_ranks
from server.config.tensors import ExpectedTensor
from server.findings import Finding
from server.memory.bill import Charges, Rank, limit_bytes
from server.memory.kv_layout import KvLayout, kv_layout
from server.memory.planner import Cause, Plan, Shortfall, plan
from server.memory.shape import resolve_shape
from server.memory.suggest import busy, calmer
from server.model.kv import KvPool, PoolShape
from server.weights.entries import TensorEntry
from server.weights.layout import draft_layout, target_layout
from server.weights.load_plan import LoadPlan, resident_bytes
from server.weights.parts import Share, part_config, part_plan
from tests.config.pairs import make_pair
from tests.memory.make import (
    ALONE,
    DRAFT_BF16,
    GIB,
    PAIR,
    TARGET_BF16,
    errors,
    make_draft,
    make_facts,
    make_options,
    make_plan,
    make_request,
    make_shortfall,
    make_target,
)

MIB = 2**20
TARGET_FP8 = TARGET_BF16.stored("fp8_e4m3")
DRAFT_FP8 = DRAFT_BF16.stored("fp8_e5m2")
TINY = KvLayout(KvGeometry(2, 2, 16, 4), KvGeometry(1, 2, 16, 4), 16, 16)
FULL = Charges(
    runtime_bytes=805_306_368,
    target_weights_bytes=16_381_470_720,
    draft_weights_bytes=2_097_252_864,
    activation_bytes=1_610_612_736,
    graphs_bytes=536_870_912,
    margin_bytes=157_286_400,
)


def sharded(ranks: int) -> KvLayout:
    """The layout of the pair on the last of `ranks`."""
    share = Share(ranks - 1, ranks)
    return kv_layout(part_config(make_target(), share), part_config(make_draft(), share), 2, 16)


def parts(layout: KvLayout) -> tuple[int, int]:
    return layout.target.bytes_per_token, layout.draft_bytes_per_token


def with_draft(**changes: int) -> KvLayout:
    return replace(PAIR, draft=replace(DRAFT_BF16, **changes))


def blocks(layout: KvLayout, budget_bytes: int, **more: Any) -> int:
    return make_plan(layout, budget_bytes, **more).num_blocks


def fitted(budget_bytes: int) -> tuple[int, int]:
    found = make_plan(PAIR, budget_bytes, 40_944, fit_length=True)
    return found.num_blocks, found.max_model_len


def pools(found: Plan) -> tuple[int, int, int]:
    """Bytes of the target's pool, of the draft's, and what is left of the grant."""
    layout, tokens = found.request.layout, found.num_blocks * found.request.layout.block_tokens
    target = layout.target.bytes_per_token * tokens
    return target, found.pool_bytes - target, found.granted_bytes - found.pool_bytes


def rank_bytes(tensors: tuple[ExpectedTensor, ...], ranks: int) -> set[int]:
    """bf16 bytes that each of `ranks` keeps of a target."""
    file = Path("model.safetensors")
    entries = [TensorEntry(t.name, "BF16", t.shape, file, 0, prod(t.shape) * 2) for t in tensors]
    plan = LoadPlan("target", tuple(entries), {}, "bfloat16")
    parts = (part_plan(plan, make_target(), Share(rank, ranks)) for rank in range(ranks))
    return {resident_bytes(part) for part in parts}


def refusals(target: TargetConfig, ranks: int) -> list[Finding]:
    return list(judge_ranks("target", target, ranks))


def loaded_bytes(tensors: tuple[ExpectedTensor, ...]) -> tuple[int, int]:
    numel = sum(prod(t.shape) for t in tensors if t.loaded)
    return numel, numel * 2


def full_plan(free_bytes: int = 80 * GIB) -> Plan | Shortfall:
    rank = Rank(85_899_345_920, FULL, free_bytes)
    return plan(make_request(PAIR, 0, 40_944, utilization=Fraction("0.90"), ranks=(rank,)))


def full_plan_numbers() -> tuple[int, ...]:
    found = full_plan()
    assert isinstance(found, Plan)
    left = found.granted_bytes - found.pool_bytes
    fixed = FULL.fixed_bytes
    numbers = (found.limit_bytes, fixed, found.granted_bytes, found.num_blocks)
    return (*numbers, found.kv.usable_tokens, left)


def busy_utilization() -> str:
    rank = Rank(85_899_345_920, FULL, 68 * GIB)
    request = make_request(PAIR, 0, 40_944, utilization=Fraction("0.9"), ranks=(rank,))
    assert busy(request)
    found = calmer(request)
    assert found is not None
    return found.value


def refused_lengths() -> list[list[str]]:
    """What is refused at 40,960 and at 40,944, the limit that the draft's last block leaves."""
    asked = (Asked(max_model_len=length) for length in (40_960, 40_944))
    return [errors(judge_pair(make_pair(asked=ask))) for ask in asked]


def four_ranks() -> tuple[int, int, int, int]:
    layout = sharded(4)
    ranks = tuple(Rank(int(size * GIB)) for size in map(Fraction, ("10", "9.5", "10.2", "6")))
    found = make_plan(layout, 0, ranks=ranks)
    own = tuple(blocks(layout, rank.total_bytes) for rank in ranks)
    assert own == (15_984, 15_185, 16_304, 9_590)
    return layout.block_bytes, found.num_blocks, found.limiting_rank, found.pool_bytes


def verify_logits_bytes(seqs: int) -> int:
    shape = resolve_shape(make_options(max_num_seqs=seqs), make_facts(), make_draft())
    rows = shape.max_num_seqs * shape.verify_tokens
    return torch.empty((rows, 151_936), dtype=torch.float32, device="meta").nbytes


def boundary() -> tuple[int, int, int, Cause]:
    found = make_shortfall(ALONE, 6_039_797_760, 40_960)
    return found.have_blocks, found.need_blocks, found.longest_tokens, found.cause


CASES: tuple[tuple[str, object, object], ...] = (
    ("1 target", TARGET_BF16.bytes_per_token, 147_456),
    ("1 draft", DRAFT_BF16.bytes_per_token, 20_480),
    ("1 both", PAIR.bytes_per_token, 167_936),
    ("1 from configs", kv_geometry(make_draft(), 2), DRAFT_BF16),
    ("1 target's", kv_geometry(make_target(), 2), TARGET_BF16),
    ("2 target", ALONE.block_bytes, 2_359_296),
    ("2 draft", 16 * DRAFT_BF16.bytes_per_token, 327_680),
    ("2 both", PAIR.block_bytes, 2_686_976),
    ("3 blocks", blocks(ALONE, 10 * GIB), 4_551),
    ("3 usable", make_plan(ALONE, 10 * GIB).kv.usable_tokens, 72_800),
    ("3 leftover", pools(make_plan(ALONE, 10 * GIB))[2], 262_144),
    ("4 blocks", blocks(PAIR, 10 * GIB), 3_996),
    ("4 usable", make_plan(PAIR, 10 * GIB).kv.usable_tokens, 63_920),
    ("4 pools", pools(make_plan(PAIR, 10 * GIB)), (9_427_746_816, 1_309_409_280, 262_144)),
    ("5", [blocks(PAIR, n * GIB) for n in (4, 8, 40)], [1_598, 3_196, 15_984]),
    ("6 parts", parts(sharded(2)), (73_728, 10_240)),
    ("6 bytes", sharded(2).bytes_per_token, 83_968),
    ("6 blocks", blocks(sharded(2), 10 * GIB), 7_992),
    ("7 parts", parts(sharded(8)), (18_432, 2_560)),
    ("7 bytes", sharded(8).bytes_per_token, 20_992),
    ("7 blocks", blocks(sharded(8), 10 * GIB), 31_968),
    ("8 bytes", sharded(16).bytes_per_token, 20_992),
    ("8 blocks", blocks(sharded(16), 10 * GIB), 31_968),
    ("9 valid", valid_ranks(32, 8), (1, 2, 4, 8, 16, 32)),
    ("9 refused", [len(refusals(make_target(), tp)) for tp in (3, 5, 6)], [1, 1, 1]),
    ("9 Qwen3-14B", len(refusals(make_target(num_attention_heads=40), 5)), 1),
    ("9 accepted", refusals(make_target(), 16), []),
    ("10 bytes", replace(PAIR, target=TARGET_FP8).bytes_per_token, 94_208),
    ("10 block", replace(PAIR, target=TARGET_FP8).block_bytes, 1_507_328),
    ("10 blocks", blocks(replace(PAIR, target=TARGET_FP8), 10 * GIB), 7_123),
    ("11 fp8 both", replace(PAIR, target=TARGET_FP8, draft=DRAFT_FP8).bytes_per_token, 83_968),
    ("11 blocks", blocks(replace(PAIR, target=TARGET_FP8, draft=DRAFT_FP8), 10 * GIB), 7_992),
    ("11 scales", replace(TARGET_FP8, scale_bytes=4).bytes_per_token, 76_032),
    ("11 s blocks", blocks(KvLayout(replace(TARGET_FP8, scale_bytes=4)), 10 * GIB), 8_826),
    ("12 blocks", ALONE.need_blocks(40_960), 2_561),
    ("12 bytes", ALONE.need_blocks(40_960) * ALONE.block_bytes, 6_042_157_056),
    ("13", boundary(), (2_560, 2_561, 40_944, Cause.POOL)),
    ("14 blocks", [PAIR.need_blocks(n) for n in (40_960, 40_944)], [2_562, 2_561]),
    ("14 bytes", 2_562 * PAIR.block_bytes, 6_884_032_512),
    ("14 short bytes", PAIR.need_blocks(40_944) * PAIR.block_bytes, 6_881_345_536),
    ("14 refused", refused_lengths(), [["SD204"], []]),
    ("15", ALONE.need_blocks(40_961), 2_562),
    ("16 4 GiB", fitted(4 * GIB), (1_598, 25_536)),
    ("16 6 GiB", fitted(6 * GIB), (2_397, 38_320)),
    ("16 10 GiB", fitted(10 * GIB), (3_996, 40_944)),
    ("16 pool", PAIR.longest_tokens(3_996), 63_904),
    ("17", loaded_bytes(target_layout(make_target())), (8_190_735_360, 16_381_470_720)),
    ("17 TP=2", rank_bytes(target_layout(make_target()), 2), {8_191_043_584}),
    ("17 TP=8", rank_bytes(target_layout(make_target()), 8), {2_048_223_232}),
    ("17 TP=16", rank_bytes(target_layout(make_target()), 16), {1_062_168_576}),
    ("18", loaded_bytes(draft_layout(make_draft())), (1_048_626_432, 2_097_252_864)),
    (
        "19",
        full_plan_numbers(),
        (77_309_411_328, 21_588_800_000, 55_720_611_328, 20_737, 331_776, 790_016),
    ),
    ("20", busy_utilization(), "0.85"),
    ("21", four_ranks(), (671_744, 9_590, 3, 6_442_024_960)),
    ("22 4 heads", with_draft(num_kv_heads=4).bytes_per_token, 157_696),
    ("22 half width", with_draft(head_dim=64).bytes_per_token, 157_696),
    ("22 16 heads", with_draft(num_kv_heads=16).bytes_per_token, 188_416),
    ("22 double width", with_draft(head_dim=256).bytes_per_token, 188_416),
    ("23", limit_bytes(Fraction("0.29"), 104_857_600), 30_408_704),
    ("24", [verify_logits_bytes(n) for n in (64, 256)], [622_329_856, 2_489_319_424]),
    ("25 bytes", (TINY.bytes_per_token, TINY.block_bytes), (768, 12_288)),
    ("25 blocks", (blocks(TINY, MIB), pools(make_plan(TINY, MIB))[2]), (85, 4_096)),
    ("25 need", (TINY.need_blocks(512), 34 * TINY.block_bytes), (34, 417_792)),
    ("26 target", blocks(ALONE, 4_113 * MIB), 1_828),
    ("26 with draft", blocks(KvLayout(TARGET_BF16, KvGeometry(16, 8, 128, 2)), 1_389 * MIB), 427),
    ("27", (blocks(ALONE, 6_837_239_808), 2_898 * 16), (2_898, 46_368)),
)


@pytest.mark.parametrize(("actual", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_numeric_case(actual: object, expected: object) -> None:
    assert actual == expected


def test_case_9_refusal_names_the_sizes_that_work() -> None:
    (refusal,) = refusals(make_target(), 3)
    assert "valid are 1, 2, 4, 8, 16, 32" in refusal.message


def test_case_9_sharding_an_impossible_ratio_raises() -> None:
    with pytest.raises(ValueError, match="8 KV heads over 3 ranks"):
        sharded(3)


@pytest.mark.parametrize(
    ("layout", "pools_bytes"),
    [
        (ALONE, [4_551 * 2_359_296]),
        (PAIR, [9_427_746_816, 1_309_409_280]),
        (PAIR.stored("fp8_e4m3", "bfloat16"), [7_123 * 16 * 73_728, 7_123 * 16 * 20_480]),
        (PAIR.stored("fp8_e4m3", "fp8_e4m3"), [7_992 * 16 * 73_728, 7_992 * 16 * 10_240]),
        (PAIR.stored("float16", "fp8_e5m2"), [4_255 * 16 * 147_456, 4_255 * 16 * 10_240]),
    ],
)
def test_the_tensors_of_10_gib_are_those_of_the_plan(
    layout: KvLayout, pools_bytes: list[int]
) -> None:
    """Nothing is allocated: the meta device only knows the sizes."""
    found = make_plan(layout, 10 * GIB)
    shape = PoolShape(layout.target, layout.draft, found.num_blocks, layout.block_tokens)
    pool = KvPool.allocate(shape, torch.bfloat16, torch.device("meta"))
    tensors = [pool.target, *([] if pool.draft is None else [pool.draft])]
    assert [tensor.untyped_storage().nbytes() for tensor in tensors] == pools_bytes
    assert sum(pools_bytes) == found.pool_bytes == pool.nbytes
