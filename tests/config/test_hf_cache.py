"""Names in the cache layout of huggingface_hub: what is found, and what is broken."""

import os
from pathlib import Path

import pytest

from server.config.hf_cache import hub_cache
from server.config.locate import Places
from server.findings import ExitCode
from tests.config.checkpoints import (
    COMMIT,
    OTHER,
    find,
    looked_in,
    make_entry,
    make_folder,
    refusal,
    with_model_dir,
    with_revision,
)

# Names in the cache


@pytest.mark.parametrize("asked", ["Qwen/Qwen3-8B", "Qwen3-8B", "Qwen/Qwen3-8B/"])
@pytest.mark.parametrize("ref", [COMMIT, f"{COMMIT}\n"])
def test_cached_model_by_name(asked: str, ref: str, hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, OTHER, ref=ref)
    found = find(asked, places)
    assert found.folder == entry / "snapshots" / COMMIT
    assert found.config_path.read_text() == "{}"
    assert found.how == f"Hugging Face cache: {entry.name}, refs/main, commit {COMMIT}"


def test_only_snapshot_needs_no_reference(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT)
    assert find("Qwen3-8B", places).folder == entry / "snapshots" / COMMIT


def test_several_snapshots_need_one(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, OTHER)
    finding = refusal("Qwen3-8B", places)
    assert (finding.rule, finding.exit_code) == ("SD113", ExitCode.NOINPUT)
    assert COMMIT[:12] in finding.message
    assert OTHER[:12] in finding.message
    assert COMMIT in finding.fix


def test_cache_entry_given_as_a_path(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    assert find(entry, places).folder == entry / "snapshots" / COMMIT


@pytest.mark.parametrize("revision", [COMMIT, COMMIT[:7], COMMIT[:7].upper()])
def test_revision_picks_a_commit(revision: str, hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, OTHER, ref=OTHER)
    found = find("Qwen3-8B", with_revision(places, revision))
    assert found.folder == entry / "snapshots" / COMMIT


def test_revision_picks_a_branch(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, OTHER, ref=OTHER)
    make_folder(entry / "refs" / "pr")
    (entry / "refs" / "pr" / "3").write_text(COMMIT)
    found = find("Qwen3-8B", with_revision(places, "pr/3"))
    assert found.folder == entry / "snapshots" / COMMIT


def test_revision_that_is_not_cached(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    finding = refusal("Qwen3-8B", with_revision(places, OTHER))
    assert finding.rule == "SD112"
    assert COMMIT[:12] in finding.message
    assert finding.fix == f"hf download Qwen/Qwen3-8B --revision {OTHER}"


@pytest.mark.parametrize("revision", ["..", "../../x", "/etc", "", "a b", "a\0"])
def test_revision_cannot_leave_the_entry(revision: str, hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    assert refusal("Qwen3-8B", with_revision(places, revision)).rule == "SD112"


def test_commit_prefix_of_six_is_too_short(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    assert refusal("Qwen3-8B", with_revision(places, COMMIT[:6])).rule == "SD112"


def test_commit_prefix_that_fits_two(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, COMMIT[:-1] + "9", ref=COMMIT)
    assert refusal("Qwen3-8B", with_revision(places, COMMIT[:10])).rule == "SD113"


def test_bare_name_of_two_organisations(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    make_entry(hub, "unsloth/Qwen3-8B", OTHER, ref=OTHER)
    finding = refusal("Qwen3-8B", places)
    assert finding.rule == "SD113"
    assert finding.fix == "--target Qwen/Qwen3-8B or --target unsloth/Qwen3-8B"
    assert find("unsloth/Qwen3-8B", places).folder is not None


def test_bare_name_does_not_match_the_end_of_another(hub: Path, places: Places) -> None:
    make_entry(hub, "org/My-Qwen3-8B", COMMIT, ref=COMMIT)
    assert refusal("Qwen3-8B", places).rule == "SD112"


def test_other_case_is_listed_and_not_taken(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    finding = refusal("qwen3-8b", places)
    assert finding.rule == "SD112"
    assert finding.fix.startswith("--target Qwen/Qwen3-8B;")


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ("Qwen/Qwen3-8B", "hf download Qwen/Qwen3-8B"),
        ("Qwen3-8B", "hf download Qwen/Qwen3-8B"),
        ("Qwen3-8B-DFlash-b16", "hf download z-lab/Qwen3-8B-DFlash-b16"),
        ("Qwen3.8-27B-DFlash2", "hf download z-lab/Qwen3.8-27B-DFlash2"),
        ("Qwen3-4B-Instruct-2507", "hf download Qwen/Qwen3-4B-Instruct-2507"),
        ("dspark_qwen3_8b_block7", "hf download deepseek-ai/dspark_qwen3_8b_block7"),
        ("some-draft", "give ORG/NAME or a folder; `hf download ORG/some-draft` fetches one"),
    ],
)
def test_unknown_name_says_how_to_fetch_it(asked: str, command: str, places: Places) -> None:
    finding = refusal(asked, places, role="draft")
    assert (finding.rule, finding.exit_code) == ("SD112", ExitCode.NOINPUT)
    assert finding.fix == command
    assert finding.locations[0].flag == "--draft"


def test_unknown_name_lists_every_place(tmp_path: Path, hub: Path, places: Places) -> None:
    models = make_folder(tmp_path / "models")
    finding = refusal("Qwen/Qwen3-9B", with_model_dir(places, models))
    assert looked_in(finding) == [
        "Qwen/Qwen3-9B",
        str(models / "Qwen/Qwen3-9B"),
        str(models / "Qwen3-9B"),
        str(models / "models--Qwen--Qwen3-9B"),
        str(hub / "models--Qwen--Qwen3-9B"),
    ]
    assert finding.fix == f"hf download Qwen/Qwen3-9B --local-dir {models}/Qwen3-9B"


# Broken entries


def test_reference_to_a_snapshot_that_is_gone(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=OTHER)
    finding = refusal("Qwen3-8B", places)
    assert (finding.rule, finding.exit_code) == ("SD114", ExitCode.NOINPUT)
    assert OTHER[:12] in finding.message


@pytest.mark.parametrize("ref", ["", "../../../etc", "main", "\xff", "a" * 5000])
def test_reference_that_holds_no_commit(ref: str, hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=ref)
    assert refusal("Qwen3-8B", places).rule == "SD114"


def test_reference_that_is_a_fifo_does_not_block(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT)
    os.mkfifo(make_folder(entry / "refs") / "main")
    assert refusal("Qwen3-8B", places).rule == "SD114"


def test_entry_without_a_snapshot(hub: Path, places: Places) -> None:
    make_entry(hub, "Qwen/Qwen3-8B")
    assert refusal("Qwen3-8B", places).rule == "SD114"


def test_snapshot_without_config(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    snapshot = entry / "snapshots" / COMMIT
    (snapshot / "config.json").rename(snapshot / "tokenizer.json")
    finding = refusal("Qwen3-8B", places)
    assert finding.rule == "SD114"
    assert "holds tokenizer.json" in finding.message


def test_blob_that_is_gone(hub: Path, places: Places) -> None:
    entry = make_entry(hub, "Qwen/Qwen3-8B", COMMIT, ref=COMMIT)
    (entry / "blobs" / f"blob-{COMMIT}").unlink()
    finding = refusal("Qwen3-8B", places)
    assert finding.rule == "SD114"
    assert finding.fix.endswith("hf download Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/c", "HF_HOME": "/b"}, "/c"),
        ({"HF_HOME": "$ROOT/x", "ROOT": "/r"}, "/r/x/hub"),
        ({"HF_HOME": "~/x", "HOME": "/home/u"}, "/home/u/x/hub"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/u"}, "/xdg/huggingface/hub"),
        ({"HOME": "/home/u", "HF_HUB_CACHE": ""}, "/home/u/.cache/huggingface/hub"),
    ],
)
def test_cache_folder_follows_the_environment(environ: dict[str, str], expected: str) -> None:
    assert hub_cache(environ) == Path(expected)
