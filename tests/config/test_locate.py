"""Finding a checkpoint: paths, folders, which place wins, and refusals that help."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config.locate import Places, locate
from server.findings import ExitCode
from tests.config.checkpoints import (
    COMMIT,
    find,
    looked_in,
    make_entry,
    make_folder,
    refusal,
    with_model_dir,
    with_revision,
)

# Paths


def test_folder_is_taken_as_it_is(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "m", "config.json")
    found = find(folder, places)
    assert (found.config_path, found.folder, found.how) == (
        folder / "config.json",
        folder,
        "folder",
    )


def test_config_json_stands_for_its_folder(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "m", "config.json")
    found = find(folder / "config.json", places)
    assert (found.config_path, found.folder) == (folder / "config.json", folder)


def test_file_of_another_name_is_a_bare_config(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "m", "qwen.json")
    found = find(folder / "qwen.json", places)
    assert (found.config_path, found.folder, found.how) == (folder / "qwen.json", None, "file")


def test_home_is_expanded_and_another_users_home_is_not(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "home" / "m", "config.json")
    assert find("~/m", places).folder == folder
    assert refusal("~nouser/m", places).rule == "SD101"


def test_dollar_in_a_path_is_no_variable(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "$HOME", "config.json")
    assert find(folder, places).folder == folder


def test_folder_without_config_names_what_is_in_it(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "m", *"abcdef")
    finding = refusal(folder, places)
    assert (finding.rule, finding.exit_code) == ("SD101", ExitCode.NOINPUT)
    assert "holds a, b, c, d, e and 1 more" in finding.message
    assert looked_in(finding) == [str(folder), str(folder / "config.json")]


def test_folder_of_checkpoints_names_those_below(tmp_path: Path, places: Places) -> None:
    make_folder(tmp_path / "all" / "Qwen3-8B", "config.json")
    assert refusal(tmp_path / "all", places).fix == f"--target {tmp_path}/all/Qwen3-8B"


def test_path_that_is_not_there_lists_near_names(tmp_path: Path, places: Places) -> None:
    make_folder(tmp_path / "Qwen3-8B", "config.json")
    finding = refusal(tmp_path / "qwen3-8b", places)
    assert finding.rule == "SD101"
    assert finding.fix == f"--target {tmp_path}/Qwen3-8B"


@pytest.mark.parametrize("asked", ["", "/", "a\0b", "x" * 5000, "\ud800", "https://h.co/Qwen/Q"])
def test_odd_paths_are_refused_and_do_not_raise(asked: str, places: Places) -> None:
    assert refusal(asked, places).rule == "SD101"


def test_symlink_loop_is_not_accessible(tmp_path: Path, places: Places) -> None:
    (tmp_path / "loop").symlink_to("loop")
    finding = refusal(tmp_path / "loop", places)
    assert (finding.rule, finding.exit_code) == ("SD102", ExitCode.NOINPUT)


def test_folder_without_permission_is_not_accessible(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "closed", "config.json")
    if os.geteuid() == 0:
        pytest.skip("the superuser may enter every folder")
    folder.chmod(0)
    try:
        assert refusal(folder, places).rule == "SD102"
    finally:
        folder.chmod(0o700)


def test_dangling_link_outside_a_cache(tmp_path: Path, places: Places) -> None:
    (tmp_path / "m").symlink_to(tmp_path / "unmounted")
    finding = refusal(tmp_path / "m", places)
    assert finding.rule == "SD101"
    assert "unmounted" in finding.message


def test_snapshot_mounted_without_its_blobs(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "mounted")
    (folder / "config.json").symlink_to("../../blobs/0123")
    finding = refusal(folder, places)
    assert finding.rule == "SD114"
    assert finding.fix.startswith("mount the whole cache folder")


# Which place wins


def test_model_dir_comes_before_the_cache(tmp_path: Path, hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    models = tmp_path / "models"
    plain = make_folder(models / "Qwen3-8B", "config.json")
    found = find("Qwen/Qwen3-8B", with_model_dir(places, models))
    assert found.folder == plain
    assert "not used: Hugging Face cache, models--Qwen--Qwen3-8B" in found.how
    nested = make_folder(models / "Qwen" / "Qwen3-8B", "config.json")
    assert find("Qwen/Qwen3-8B", with_model_dir(places, models)).folder == nested


def test_home_in_model_dir_is_expanded(tmp_path: Path, places: Places) -> None:
    folder = make_folder(tmp_path / "home" / "models" / "Qwen3-8B", "config.json")
    assert find("Qwen3-8B", with_model_dir(places, Path("~/models"))).folder == folder


def test_model_dir_may_be_a_cache(tmp_path: Path, places: Places) -> None:
    entry = make_entry(tmp_path / "models", "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    found = find("Qwen3-8B", with_model_dir(places, tmp_path / "models"))
    assert found.folder == entry / "snapshots" / COMMIT
    assert found.how.startswith("cache entry in --model-dir")


def test_local_folder_wins_and_says_so(
    tmp_path: Path, hub: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    make_folder(tmp_path / "cwd" / "Qwen3-8B", "config.json")
    monkeypatch.chdir(tmp_path / "cwd")
    found = find("Qwen3-8B", with_revision(places, "main"))
    assert found.folder == Path("Qwen3-8B")
    assert f"not used: Hugging Face cache, models--Qwen--Qwen3-8B (refs/main, commit {COMMIT})" in (
        found.how
    )
    assert "--revision main applies to cache entries only" in found.how


def test_local_folder_without_config_is_not_skipped(
    tmp_path: Path, hub: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    make_folder(tmp_path / "cwd" / "Qwen3-8B", "model.safetensors")
    monkeypatch.chdir(tmp_path / "cwd")
    assert refusal("Qwen3-8B", places).rule == "SD101"


@pytest.mark.parametrize("asked", ["../secret", "..", "a/../b", "models--x", "a/b/c"])
def test_model_dir_cannot_be_left(
    asked: str, tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path / "secret", "config.json")
    monkeypatch.chdir(make_folder(tmp_path / "here" / "cwd"))
    models = make_folder(tmp_path / "models")
    assert refusal(asked, with_model_dir(places, models)).rule in ("SD101", "SD112")


@given(asked=st.text(), revision=st.none() | st.text())
def test_no_name_raises(asked: str, revision: str | None) -> None:
    places = Places(Path("/nonexistent"), revision, {"HOME": "/nonexistent"})
    found, outcome = locate("draft", asked, places)
    assert (found is None) == outcome.refused
