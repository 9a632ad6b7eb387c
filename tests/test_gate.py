"""The draft's half of the gate: the refusal comes first, from the one call that refuses."""

from pathlib import Path

import pytest

from server import gate, startup
from server.config.families import known_families
from server.findings import ExitCode
from server.log import Refused
from server.telling import our_bug
from tests.boots import make_log, make_options, rules, said


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVER_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_dspine_draft_is_refused_before_its_other_faults_are_told() -> None:
    log = make_log()
    found = gate.read_draft_config(make_options("nowhere", "sample:dspine-invalid"), log)
    assert rules(log) == []
    servable = gate.refuse_unservable(found, log)
    assert servable.refused
    assert rules(log)[0] == "SD306"
    assert len(rules(log)) > 10
    assert log.report.exit_code == ExitCode.CONFIG


def test_a_plain_draft_is_servable() -> None:
    log = make_log()
    found = gate.read_draft_config(make_options("nowhere", "sample:dflash"), log)
    assert not gate.refuse_unservable(found, log).refused
    assert rules(log) == []
    assert log.report.draft is not None
    assert (log.report.draft.family, log.report.draft.layout) == ("dflash", "anchor-drop")


def test_a_sample_that_is_misspelt_is_told_with_the_names_there_are() -> None:
    _, outcome = gate.find_checkpoint("draft", "sample:flash", make_options("nowhere"))
    (found,) = outcome.findings
    assert "sample:dflash" in found.message
    assert (found.rule, found.fix) == ("SD112", "give one of these names")


def test_no_draft_is_servable() -> None:
    log = make_log()
    found = gate.read_draft_config(make_options("nowhere"), log)
    assert not gate.refuse_unservable(found, log).refused


@pytest.mark.parametrize("text", ["{", "[]", '{"dflash_config": {"selected_prefix_code'])
def test_a_draft_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "draft.json"
    path.write_text(text)
    log = make_log()
    servable = gate.refuse_unservable(
        gate.read_draft_config(make_options("nowhere", path), log), log
    )
    assert servable.refused
    assert rules(log) == ["SD103"]


def test_a_missing_draft_is_refused_and_the_target_still_told() -> None:
    log = make_log()
    with pytest.raises(Refused):
        startup.boot(make_options("no-target", "no-draft"), log)
    assert rules(log) == ["SD112", "SD112"]
    assert log.report.exit_code == ExitCode.NOINPUT


def test_the_refusal_is_printed_before_the_target_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever happens while the target is read, even a bug, the refusal has been told."""
    log = make_log()

    def explode(*_: object) -> None:
        assert "error[SD306]" in said(log)
        raise OSError("the file system is gone")

    monkeypatch.setattr("server.pairing.find_checkpoint", explode)
    with pytest.raises(OSError, match="gone"):
        startup.boot(make_options("nowhere", "sample:dspine"), log)
    log.tell(our_bug(OSError("gone"), log))
    assert log.report.exit_code == ExitCode.CONFIG


def test_every_family_that_is_not_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A family that is registered as not served needs no branch of its own to be refused."""
    unserved = tuple(f._replace(served=False) if f.id == "dflash" else f for f in known_families())
    monkeypatch.setattr("server.config.draft.known_families", lambda: unserved)
    log = make_log()
    found = gate.read_draft_config(make_options("nowhere", "sample:dflash"), log)
    assert gate.refuse_unservable(found, log).refused
    assert rules(log) == ["SD312"]


def test_a_family_known_by_name_only_is_refused_and_the_target_still_told(tmp_path: Path) -> None:
    path = tmp_path / "draft.json"
    path.write_text('{"medusa_num_heads": 5}')
    log = make_log()
    with pytest.raises(Refused):
        startup.boot(make_options("no-target", path), log)
    assert rules(log) == ["SD312", "SD112"]
    assert log.report.exit_code == ExitCode.CONFIG
    assert log.report.draft is not None
    assert (log.report.draft.family, log.report.draft.schema) == ("medusa", "flat")
    assert log.report.draft.layout is None
