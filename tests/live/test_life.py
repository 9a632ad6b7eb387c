"""Whoever tells of a boot never ends it."""

from pathlib import Path

import pytest

from server.live.life import Life
from server.log import Log
from server.report import MemoryFacts
from tests.boots import make_log, rules, said
from tests.memory.make import make_facts


def make_life(environ: dict[str, str]) -> tuple[Life, Log]:
    log = make_log()
    log.report.memory = MemoryFacts("cpu", 2**30, 2**29, "0.5")
    return Life(log, environ), log


def test_the_second_instance_on_a_device_is_told_of_the_first(tmp_path: Path) -> None:
    environ = {"SERVER_CACHE_DIR": str(tmp_path)}
    lives = [make_life(environ) for _ in range(3)]
    for (life, _), uuid in zip(lives, ("one", "other", "one"), strict=True):
        life.meet(make_facts(uuid=uuid))
    assert [rules(log) for _, log in lives] == [[], [], ["SD611"]]
    assert "a limit of 512.00 MiB" in " ".join(said(lives[2][1]).split())
    for life, _ in lives:
        life.end("")
    last, log = make_life(environ)
    last.meet(make_facts(uuid="one"))
    last.end("")
    assert not rules(log)


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    life, log = make_life({"SERVER_CACHE_DIR": str(tmp_path / "file")})
    life.meet(make_facts())
    life.end("")
    assert not log.report.checks


def test_a_life_that_nobody_is_told_of_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    life, _ = make_life({})
    life.meet(make_facts())
    life.ready()
    life.end("")
    assert not list(tmp_path.iterdir())
