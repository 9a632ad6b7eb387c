"""Which files make up a checkpoint: each fault of folder, index and shards beside a good one."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from server.findings import ExitCode, Severity, exit_code_of
from server.weights.index import read_inventory
from tests.weights.make import INDEX, rules_of, status_of, write_index, write_sharded, write_single

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def make_tensor() -> torch.Tensor:
    return torch.ones(4, dtype=torch.bfloat16)


def make_checkpoint(folder: Path) -> Path:
    return write_sharded(folder, {"a": make_tensor(), "b": make_tensor()}, {"c": make_tensor()})


def message(folder: Path, rule: str) -> str:
    """The message of the one finding of `rule`; the checkpoint must be refused for it."""
    inventory, outcome = read_inventory("target", folder)
    assert inventory is None
    (found,) = [f for f in outcome.findings if f.rule == rule]
    assert found.severity is Severity.ERROR
    assert status_of(outcome)[rule] == "fail"
    return found.message


def test_sharded_checkpoint(tmp_path: Path) -> None:
    inventory, outcome = read_inventory("target", make_checkpoint(tmp_path))
    assert outcome.findings == ()
    assert inventory is not None
    assert sorted(inventory.tensors) == ["a", "b", "c"]
    assert [shard.path.name for shard in inventory.shards] == [FIRST, SECOND]
    assert inventory.tensors["c"].file == tmp_path / SECOND


def test_single_file_checkpoint(tmp_path: Path) -> None:
    inventory, outcome = read_inventory("draft", write_single(tmp_path, {"a": make_tensor()}))
    assert inventory is not None
    assert outcome.findings == ()
    assert status_of(outcome)["SD410"] == "skip"
    assert status_of(outcome)["SD408"] == "pass"


def test_links_of_a_cache_snapshot_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for file in sorted(make_checkpoint(blobs).iterdir()):
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    inventory, _ = read_inventory("target", snapshot)
    assert inventory is not None
    (blobs / SECOND).unlink()
    text = message(snapshot, "SD406")
    assert text == f"target {SECOND} is a dangling link to ../../blobs/{SECOND}"


def test_nothing_there(tmp_path: Path) -> None:
    assert "neither model.safetensors nor" in message(tmp_path, "SD405")
    assert "is not a folder" in message(tmp_path / "absent", "SD405")
    (tmp_path / "file").write_text("")
    assert "is not a folder" in message(tmp_path / "file", "SD405")
    _, outcome = read_inventory("target", tmp_path)
    assert exit_code_of(outcome.findings) is ExitCode.NOINPUT
    assert status_of(outcome)["SD407"] == "skip"


def test_another_name_is_told_not_guessed(tmp_path: Path) -> None:
    save_file({"a": make_tensor()}, tmp_path / "weights.safetensors")
    assert "but weights.safetensors" in message(tmp_path, "SD405")


def test_pickles_are_refused_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").symlink_to("nowhere")
    assert "pytorch_model.bin" in message(tmp_path, "SD412")
    write_single(tmp_path, {"a": make_tensor()})
    inventory, _ = read_inventory("target", tmp_path)
    assert inventory is not None


def test_training_arguments_are_no_weights(tmp_path: Path) -> None:
    (tmp_path / "training_args.bin").write_bytes(b"")
    assert message(tmp_path, "SD405")


def test_single_file_and_index(tmp_path: Path) -> None:
    write_single(make_checkpoint(tmp_path), {"a": make_tensor()})
    assert "both model.safetensors and" in message(tmp_path, "SD411")


def test_an_index_of_the_single_file_is_not_ambiguous(tmp_path: Path) -> None:
    write_single(tmp_path, {"a": make_tensor()})
    write_index(tmp_path, {"a": "model.safetensors"})
    inventory, outcome = read_inventory("target", tmp_path)
    assert inventory is not None
    assert outcome.findings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "weight_map is missing"),
        ('{"weight_map": {}}', "weight_map is {}"),
        ('{"weight_map": ["a"]}', 'weight_map is ["a"]'),
        ('{"weight_map": {"a": 1}}', "gives 1 as the file of a"),
        ('{"weight_map": {"a": ""}}', "a file name is needed"),
        ('{"weight_map": {"a": "pytorch_model.bin"}}', "not a .safetensors file"),
        ('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', "/weight_map/a is given"),
        ('{"weight_map": {}} trailing', "line 1"),
        ("[]", "top level is"),
        ("", "is empty"),
    ],
)
def test_index_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / INDEX).write_text(text)
    assert said in message(tmp_path, "SD409")


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/x.safetensors",
        "sub/x.safetensors",
        "a\\x.safetensors",
        "..",
        "a\0.safetensors",
    ],
)
def test_paths_out_of_the_folder(tmp_path: Path, name: str) -> None:
    make_checkpoint(tmp_path)
    write_index(tmp_path, {"a": FIRST, "b": FIRST, "c": name})
    assert "plain name" in message(tmp_path, "SD413")


def test_dots_inside_a_name_are_fine(tmp_path: Path) -> None:
    save_file({"a": make_tensor()}, tmp_path / "model..v2.safetensors")
    write_index(tmp_path, {"a": "model..v2.safetensors"})
    inventory, _ = read_inventory("target", tmp_path)
    assert inventory is not None


def test_many_bad_names_are_counted(tmp_path: Path) -> None:
    write_index(tmp_path, {f"t{i}": f"../{i}.safetensors" for i in range(14)})
    _, outcome = read_inventory("target", tmp_path)
    assert rules_of(outcome) == ["SD413"] * 11
    assert "4 more" in outcome.findings[-1].message


def test_missing_shards_with_near_names(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    (tmp_path / SECOND).rename(tmp_path / "model.safetensors-00002-of-00002.safetensors")
    inventory, outcome = read_inventory("target", tmp_path)
    assert inventory is None
    missing, stray = outcome.findings
    assert missing.message == f"target index names 2 files, 1 not there: {SECOND}"
    assert "model.safetensors-00002-of-00002.safetensors" in missing.fix
    assert (stray.rule, stray.severity) == ("SD417", Severity.NOTE)


def test_the_other_shards_of_the_index_are_no_near_names(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    (tmp_path / SECOND).unlink()
    (missing,) = read_inventory("target", tmp_path)[1].findings
    assert missing.rule == "SD406"
    assert "similar name" not in missing.fix


def test_stray_files_are_a_note(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    save_file({"a": make_tensor()}, tmp_path / "consolidated.safetensors")
    inventory, outcome = read_inventory("target", tmp_path)
    assert inventory is not None
    assert rules_of(outcome) == ["SD417"]
    assert "consolidated.safetensors" in outcome.findings[0].message
    assert not outcome.refused


def test_stray_beside_a_single_file(tmp_path: Path) -> None:
    write_single(tmp_path, {"a": make_tensor()})
    save_file({"a": make_tensor()}, tmp_path / "old.safetensors")
    _, outcome = read_inventory("target", tmp_path)
    assert rules_of(outcome) == ["SD417"]


def test_tensor_in_two_shards(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    save_file({"c": make_tensor(), "a": make_tensor()}, tmp_path / SECOND)
    assert f"a ({FIRST} and {SECOND})" in message(tmp_path, "SD410")


def test_tensor_in_another_shard_than_the_index_says(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    write_index(tmp_path, {"a": FIRST, "b": SECOND, "c": SECOND})
    assert f"1 tensor not in the shard it gives: b ({FIRST})" in message(tmp_path, "SD410")


def test_tensor_in_no_shard(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    write_index(tmp_path, {"a": FIRST, "b": FIRST, "c": SECOND, "mtp.fc.weight": SECOND})
    assert "mtp.fc.weight (in no shard)" in message(tmp_path, "SD410")


def test_tensor_that_the_index_omits(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    write_index(tmp_path, {"a": FIRST, "c": SECOND})
    assert f"the index omits: b ({FIRST})" in message(tmp_path, "SD410")


def test_a_shard_that_cannot_be_read_hides_nothing_and_invents_nothing(tmp_path: Path) -> None:
    """Both shards are bad: both are told, and no tensor is called missing for it."""
    make_checkpoint(tmp_path)
    first = tmp_path / FIRST
    first.write_bytes(first.read_bytes()[:-1])
    (tmp_path / SECOND).write_bytes(bytes(64))
    inventory, outcome = read_inventory("target", tmp_path)
    assert inventory is None
    assert rules_of(outcome) == ["SD407", "SD408"]
    assert exit_code_of(outcome.findings) is ExitCode.DATAERR


def test_a_broken_index_skips_what_waits_on_it(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    (tmp_path / INDEX).write_text("{")
    _, outcome = read_inventory("target", tmp_path)
    status = status_of(outcome)
    assert [status[r] for r in ("SD409", "SD413", "SD408", "SD410")] == ["fail", *["skip"] * 3]


def test_an_index_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / INDEX).mkdir()
    assert "is a directory" in message(tmp_path, "SD414")


def test_a_folder_name_that_cannot_exist() -> None:
    assert "is not a folder" in message(Path("a\0b"), "SD405")
