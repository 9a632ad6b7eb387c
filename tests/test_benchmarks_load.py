"""The arithmetic of the load benchmark: each limit is missed just beyond it."""

import pytest

from benchmarks.load import BOOTS, Run, limits

GIB = 2**30


def make_run(load_s: float, peak: float = 1.0) -> Run:
    return Run(load_s, load_s, load_s, peak * GIB, GIB)


def make_warm(**changes: Run) -> dict[str, Run]:
    kept = {
        "ours": make_run(1.0, 1.02),
        "fastsafetensors": make_run(1.01),
        "ours_touched_unchecked": make_run(1.0),
        "memcpy_touched": make_run(1.21),
        "pread_touched": make_run(0.91),
        "ours_touched": make_run(1.0),
        "memcpy_touched_checked": make_run(1.21),
        "ours_mapped_unchecked": make_run(0.1199),
        "load_file": make_run(0.1),
        "ours_mapped": make_run(1.199),
        "load_file_checked": make_run(1.0),
    }
    return kept | changes


COLD = {BOOTS[0]: make_run(0.75), BOOTS[1]: make_run(1.0)}


def test_all_limits_hold_at_their_edges() -> None:
    held = limits(make_warm(), COLD)
    assert [holds for _, holds in held] == [True] * 8


@pytest.mark.parametrize(
    ("changed", "run"),
    [
        ("fastsafetensors", make_run(1.0)),
        ("memcpy_touched", make_run(1.19)),
        ("pread_touched", make_run(0.9)),
        ("memcpy_touched_checked", make_run(1.19)),
        ("ours", make_run(1.0, 1.03)),
        ("load_file", make_run(0.099)),
        ("load_file_checked", make_run(0.99)),
    ],
)
def test_each_limit_is_missed_just_beyond(changed: str, run: Run) -> None:
    missed = [said for said, holds in limits(make_warm(**{changed: run}), COLD) if not holds]
    assert len(missed) == 1


def test_a_cold_boot_that_gains_less_than_a_quarter_misses() -> None:
    slow = COLD | {BOOTS[0]: make_run(0.76)}
    missed = [said for said, holds in limits(make_warm(), slow) if not holds]
    assert len(missed) == 1
    assert "24% less" in missed[0]


def test_a_loader_that_is_not_installed_has_no_limit() -> None:
    warm = make_warm()
    del warm["fastsafetensors"]
    assert len(limits(warm, {})) == 6
