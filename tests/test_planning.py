"""A plan for the device at hand: what is asked of it, and what others hold of it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from server import planning, startup
from server.findings import Outcome, outcome_of
from server.log import Log, Refused
from server.memory.facts import DeviceFacts
from server.memory.profile import PhasePeak, Workload
from server.model.steps import StepShape
from server.report import NOT_LOADED, NOT_TOUCHED
from tests.boots import make_log, make_options, rules
from tests.memory.make import GIB, FixedSource, make_facts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))


def plan_on(facts: DeviceFacts, monkeypatch: pytest.MonkeyPatch) -> Log:
    """The plan of a sample pair, without a prediction, where `facts` are what NVML tells."""
    options = make_options("sample:qwen3", "sample:dflash", plan=True, predict=False)
    log = make_log(options)
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    monkeypatch.setattr(planning, "find_device", lambda *_: (facts, outcome_of("SD601", ())))
    try:
        assert startup.boot(options, log) is None
    except Refused:
        assert log.report.refused
    return log


def notes_of(log: Log) -> str:
    assert log.report.memory is not None
    return "\n".join(log.report.memory.notes)


def test_figures_of_nvml_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    by_nvml = plan_on(make_facts(exact=False), monkeypatch)
    assert "total: NVML's" in notes_of(by_nvml)
    assert "total: NVML's" not in notes_of(plan_on(make_facts(), monkeypatch))
    assert by_nvml.report.not_done == [NOT_LOADED, NOT_TOUCHED]


@pytest.mark.parametrize(
    ("setting", "most"), [("max_num_seqs", 1024), ("max_num_batched_tokens", 1024 * 2)]
)
def test_of_a_step_with_very_many_requests_a_part_is_predicted_unless_all_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, setting: str, most: int
) -> None:
    steps: list[StepShape] = []

    def predict(
        _facts: object, _pair: object, work: Workload, _dtype: str
    ) -> tuple[PhasePeak, ...]:
        steps.append(work.shape)
        return (PhasePeak("prefill", 1, {}),)

    monkeypatch.setattr("server.memory.predict.predict", predict)
    monkeypatch.setattr(planning, "_smallest", lambda *_: None)
    for number, told in ((most, None), (most + 1, None), (most + 1, True)):
        step = {"max_model_len": 2, "max_num_seqs": 1, "max_num_batched_tokens": 1}
        step[setting] = number
        log = plan_for(2**62, predict=told, **step)
        predicted = {
            "max_num_seqs": steps[-1].num_seqs,
            "max_num_batched_tokens": steps[-1].prefill_tokens,
        }
        whole = number == most or told
        assert predicted[setting] == (number if whole else most)
        assert ("for 1024 of the requests" in notes_of(log)) is not whole


def test_what_the_rows_of_a_step_take_is_counted_for_all_requests_of_it() -> None:
    log = plan_for(80 * GIB, max_num_seqs=2**31 - 1)
    assert "SD504" in rules(log)
    told = log.report.findings[0].message
    assert told.startswith("--max-num-seqs is 2147483647: a verify step of 2147483647 rows takes")


def test_weights_without_room_are_told_before_a_step_that_has_none() -> None:
    log = plan_for(2**20, max_num_seqs=2**31 - 1)
    assert rules(log) == ["SD501"]
    assert "not predicted (there is no room without it)" in notes_of(log)


def plan_for(total_bytes: int, **settings: Any) -> Log:  # noqa: ANN401
    """The plan of the sample target for a device of this size."""
    options = make_options("sample:qwen3", plan=True, assume_memory=(total_bytes,), **settings)
    log = make_log(options)
    log.report.not_done += [NOT_LOADED, NOT_TOUCHED]
    with suppress(Refused):
        startup.boot(options, log)
    return log


def test_memory_that_others_hold_is_a_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = plan_on(make_facts(free_bytes=72 * GIB - 1), monkeypatch)
    assert (rules(busy), busy.report.exit_code) == (["SD503"], 75)
    assert busy.report.plan is not None
    assert not busy.report.plan.answers[0].fits
    assert rules(plan_on(make_facts(free_bytes=72 * GIB), monkeypatch)) == []


def test_a_device_whose_size_nothing_tells_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[DeviceFacts] = []

    def open_device(facts: DeviceFacts, _: object) -> tuple[FixedSource, Outcome]:
        opened.append(facts)
        return FixedSource(make_facts(total_bytes=7 * GIB), [0], [0]), Outcome()

    monkeypatch.setattr(planning, "open_device", open_device)
    log = plan_on(make_facts(total_bytes=None, free_bytes=None), monkeypatch)
    assert len(opened) == 1
    assert log.report.not_done == [NOT_LOADED]
    assert log.report.memory is not None
    assert log.report.memory.total_bytes == 7 * GIB
