"""The arithmetic of the load benchmark: each limit is missed just beyond it."""

import pytest

from benchmarks.load import BOOTS, Found, Run, limits

GIB = 2**30


def make_run(load_s: float, peak: float = 1.0) -> Run:
    return Run(load_s, load_s, load_s, peak * GIB, GIB)


WARM = {
    "ours": make_run(1.0, 1.02),
    "fastsafetensors": make_run(1.01),
    "ours_mapped_unchecked": make_run(0.1199),
    "load_file": make_run(0.1),
    "ours_mapped": make_run(1.199),
    "load_file_checked": make_run(1.0),
}
COLD = {
    "ours": make_run(2.0),
    "fastsafetensors": make_run(2.01),
    BOOTS[0]: make_run(0.75),
    BOOTS[1]: make_run(1.0),
}
TOUCHED = {
    "memcpy": 1.21,
    "memcpy, looked at": 1.21,
    "pread": 0.72,
    "ours, reads alone": 1.0,
    "ours, looked at": 1.0,
}


def missed(found: Found) -> list[str]:
    return [said for said, holds in limits(found) if not holds]


def test_all_limits_hold_at_their_edges() -> None:
    held = limits(Found(WARM, COLD, TOUCHED))
    assert [holds for _, holds in held] == [True] * 9


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        ("fastsafetensors", make_run(1.0)),
        ("ours", make_run(1.0, 1.03)),
        ("load_file", make_run(0.099)),
        ("load_file_checked", make_run(0.99)),
    ],
)
def test_each_limit_of_a_warm_load_is_missed_just_beyond(changed: str, run: Run) -> None:
    assert len(missed(Found(WARM | {changed: run}, COLD, TOUCHED))) == 1


@pytest.mark.parametrize(
    ("changed", "spent_s"), [("memcpy", 1.19), ("memcpy, looked at", 1.19), ("pread", 0.71)]
)
def test_each_limit_of_a_copy_is_missed_just_beyond(changed: str, spent_s: float) -> None:
    told = missed(Found(WARM, COLD, TOUCHED | {changed: spent_s}))
    assert len(told) == 1
    assert told[0].startswith("touched: ")


def test_a_loader_that_is_faster_from_the_disk_is_told() -> None:
    told = missed(Found(WARM, COLD | {"fastsafetensors": make_run(2.0)}, TOUCHED))
    assert len(told) == 1
    assert told[0].startswith("cold, ")


def test_a_cold_boot_that_gains_less_than_a_quarter_misses() -> None:
    told = missed(Found(WARM, COLD | {BOOTS[0]: make_run(0.76)}, TOUCHED))
    assert len(told) == 1
    assert "24% less" in told[0]


def test_a_loader_that_is_not_installed_has_no_limit() -> None:
    alone = {name: run for name, run in WARM.items() if name != "fastsafetensors"}
    cold = {name: run for name, run in COLD.items() if name != "fastsafetensors"}
    assert len(limits(Found(alone, cold, TOUCHED))) == 7
