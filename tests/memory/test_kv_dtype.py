"""Which types the pool stores, and which are refused."""

from typing import Any

import pytest
import torch

from server.memory.kv_dtype import judge_converted, judge_stored, kv_settings, stored_layout
from server.memory.profile import Workload, profile
from server.model.kv import KvPool
from tests.memory.make import ALONE, PAIR, FixedSource, make_facts, make_options
from tests.memory.test_profile import MARGIN, SHAPE, fixed, make_models

FP8 = {"kv_cache_dtype": "fp8_e4m3"}


@pytest.mark.parametrize(
    ("options", "dtype", "target", "draft", "bytes_per_token"),
    [
        ({}, "bfloat16", "bfloat16", "bfloat16", 167_936),
        ({}, "float32", "float32", "float32", 335_872),
        (FP8, "bfloat16", "fp8_e4m3", "bfloat16", 94_208),
        ({**FP8, "draft_kv_cache_dtype": "fp8_e5m2"}, "float16", "fp8_e4m3", "fp8_e5m2", 83_968),
        ({"draft_kv_cache_dtype": "fp8_e4m3"}, "float16", "float16", "fp8_e4m3", 157_696),
    ],
)
def test_each_part_stores_what_was_asked_or_what_is_computed_in(
    options: dict[str, Any], dtype: str, target: str, draft: str, bytes_per_token: int
) -> None:
    layout = stored_layout(PAIR, make_options(**options), dtype)
    assert layout.draft is not None
    assert (layout.target.dtype, layout.draft.dtype) == (target, draft)
    assert layout.bytes_per_token == bytes_per_token
    settings = kv_settings(layout, make_options(**options))
    assert {name: facts.value for name, facts in settings.items()} == {
        "kv_cache_dtype": target,
        "draft_kv_cache_dtype": draft,
    }


def test_settings_say_where_a_type_is_from_and_nothing_of_a_draft_that_is_not_there() -> None:
    sources = {"kv_cache_dtype": "flag --kv-cache-dtype"}
    options = make_options(**FP8, sources=sources)
    (facts,) = kv_settings(stored_layout(ALONE, options, "bfloat16"), options).values()
    assert facts == ("fp8_e4m3", "flag --kv-cache-dtype")
    (facts,) = kv_settings(
        stored_layout(ALONE, make_options(), "bfloat16"), make_options()
    ).values()
    assert facts == ("bfloat16", "what is computed in")


@pytest.mark.parametrize("name", ["kv_cache_dtype", "draft_kv_cache_dtype"])
@pytest.mark.parametrize(
    ("asked", "dtype", "told"),
    [
        ("float32", "bfloat16", True),
        ("float32", "float16", True),
        ("float32", "float32", False),
        ("float16", "bfloat16", False),
        ("bfloat16", "float16", False),
        ("auto", "float16", False),
        ("fp8_e5m2", "float16", False),
    ],
)
def test_sd705_a_type_wider_than_what_is_computed(
    name: str, asked: str, dtype: str, told: bool
) -> None:
    found = list(judge_stored(make_options(**{name: asked}), dtype))
    assert [finding.rule for finding in found] == ["SD705"] * told
    if found:
        flag = f"--{name.replace('_', '-')}"
        assert found[0].message == f"{flag} is float32, and the dtype is {dtype}, which is narrower"
        assert found[0].fix == f"leave {flag} out, or compute in it too (--dtype float32)"


def test_sd705_a_type_that_the_device_cannot_convert() -> None:
    layout = PAIR.stored("fp8_e4m3", "bfloat16")
    source = FixedSource(make_facts(), free=[0], used=[0])
    assert list(judge_converted(layout, source)) == []
    source.torch_device = torch.device("meta")  # holds no numbers
    told = [finding.message for finding in judge_converted(layout, source)]
    assert told == [
        "--kv-cache-dtype is fp8_e4m3, and torch cannot convert to it on cuda:0 GPU",
        "--draft-kv-cache-dtype is bfloat16, and torch cannot convert to it on cuda:0 GPU",
    ]


def test_the_profile_runs_over_the_types_that_are_stored() -> None:
    models, layout = make_models()
    seen: list[tuple[torch.dtype, torch.dtype]] = []

    def run(_target: object, _drafter: object, pool: KvPool, _shape: object) -> None:
        seen.append((pool.target.dtype, pool.draft_storage.dtype))

    work = Workload(layout.stored("fp8_e4m3", "float16"), SHAPE, run)
    _, outcome = profile(fixed(), models, work, MARGIN)
    assert outcome.findings == ()
    assert set(seen) == {(torch.float8_e4m3fn, torch.float16)}
