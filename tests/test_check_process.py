"""`--check` on real, bare config files, as an operator would run it."""

from pathlib import Path

import pytest

from tests.corpus import corpus_file
from tests.process import Finished, run, witness

DRAFT = "dflash_nested/z-lab__Qwen3-8B-DFlash-b16.reconstructed.json"


def check(target: str, cache: Path) -> Finished:
    draft, against = corpus_file(DRAFT), corpus_file(f"target/{target}.json")
    return run("--check", "--draft", str(draft), "--target", str(against), cache=cache)


def test_the_right_target_is_accepted_and_the_skipped_tensors_are_told(tmp_path: Path) -> None:
    done = check("Qwen__Qwen3-8B", tmp_path)
    assert done.code == 0, done.stderr
    assert done.stderr.count("skipped: tensor rules") == 2
    assert "bare config file" in done.stderr
    assert done.verdict_line.startswith("accepted: no findings")


@pytest.mark.parametrize(
    ("target", "rules"),
    [("Qwen__Qwen3-4B", ["SD201"]), ("Qwen__Qwen3-4B-2507", ["SD201", "SD204", "SD205"])],
)
def test_the_wrong_target_is_refused_with_both_values(
    tmp_path: Path, target: str, rules: list[str]
) -> None:
    done = check(target, tmp_path)
    assert done.code == 78
    assert [line[6:11] for line in done.error_lines] == rules
    assert "4096" in done.error_lines[0]
    assert "2560" in done.error_lines[0]
    if len(rules) > 1:
        assert all(value in done.stderr for value in ("40960", "262144", "1000000", "5000000"))


def test_print_config_reads_nothing_and_warns_of_misspelt_variables(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text("{")
    done = witness(
        "--print-config", "--target", str(target), "--draft", "sample:dflash",
        cache=tmp_path, env={"SERVER_MAX_MODEL_LENGTH": "4"},
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert f"target                  {target}  (flag --target)" in done.stdout.splitlines()
    assert done.stderr.startswith("warning[SD604]")
    assert not [name for name in done.opened if name.startswith(str(target))]
    assert not (tmp_path / "samples").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--weights", "mapped", "--dtype", "float32"), "bfloat16 is to be converted to float32"),
        (("--kv-cache-dtype", "float32"), "the dtype is bfloat16, which is narrower"),
        (("--draft-kv-cache-dtype", "float32"), "the dtype is bfloat16, which is narrower"),
    ],
)
@pytest.mark.parametrize("mode", ["--check", "--plan"])
def test_what_the_files_contradict_is_told_without_a_device(
    tmp_path: Path, mode: str, flags: tuple[str, str], words: str
) -> None:
    pair = ("--target", "sample:qwen3", "--draft", "sample:dflash")
    done = witness(mode, *pair, *flags, cache=tmp_path)
    assert done.code == 2, done.stderr
    assert {line[:12] for line in done.error_lines} == {"error[SD705]"}
    assert words in " ".join(done.stderr.split())
    if mode == "--check":
        assert not {"torch", "numpy", "pynvml"} & set(done.modules)
