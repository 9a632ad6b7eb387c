"""A short soak; the long one is `python -m tests.soak`."""

from pathlib import Path

from tests.soak import BOOTS, VERDICTS, chosen, soak, wrong_with


def test_boots_and_refusals_in_a_row_and_at_once_leave_nothing(tmp_path: Path) -> None:
    runs, seed = 11, 27
    cases = list(chosen(runs, seed))
    assert {cases[0], cases[-1]} == {*BOOTS[1:]}, "one boot in a row, one beside others"
    assert {*cases} >= {*VERDICTS}
    assert soak(tmp_path, runs, at_once=4, seed=seed) == []


def test_a_wrong_verdict_is_seen(tmp_path: Path) -> None:
    case = VERDICTS[-1]
    assert wrong_with(tmp_path, case) == ""
    assert "exit 2" in wrong_with(tmp_path, case._replace(code=66))
    assert "exit 2" in wrong_with(tmp_path, case._replace(verdict="accepted"))


def test_one_run_in_ten_is_a_boot() -> None:
    assert sum(case in BOOTS for case in chosen(1000, 1)) == 100
    assert list(chosen(50, 1)) != list(chosen(50, 2))
