"""What a refusal proposes is there: the proposed name, asked for, is found."""

import re
from pathlib import Path

import pytest

from server.config.locate import Places
from tests.config.checkpoints import (
    COMMIT,
    find,
    make_entry,
    make_folder,
    refusal,
    with_model_dir,
)


def proposed(fix: str) -> list[str]:
    return re.findall(r"--target (\S+?)(?=;| or |$)", fix)


@pytest.mark.parametrize("asked", ["qwen/qwen3-8b", "models--Qwen--Qwen3-8B", "Qwen/Qwen3-8"])
def test_proposed_name_is_found(asked: str, hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    found = refusal(asked, places)
    assert found.rule == "SD112"
    (name,) = proposed(found.fix)
    assert find(name, places).folder == entry / "snapshots" / COMMIT
    assert "models--" not in found.fix


@pytest.mark.parametrize("asked", ["Qwen/Qwen3-8B", "Qwen3-8B", "Qwen/Qwen3-8"])
def test_entry_that_is_no_folder_is_not_proposed(asked: str, hub: Path, places: Places) -> None:
    (hub / "models--Qwen--Qwen3-8B").write_text("")
    found = refusal(asked, places)
    assert found.rule == "SD112"
    assert proposed(found.fix) == []
    assert "hf download" in found.fix


def test_file_in_the_model_folder_is_not_proposed(tmp_path: Path, places: Places) -> None:
    models = make_folder(tmp_path / "models", "notes")
    assert proposed(refusal("notes", with_model_dir(places, models)).fix) == []
