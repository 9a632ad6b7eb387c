"""The table is right about real files, and finds a fault where there is one."""

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from server.config.rules import finding
from server.findings import Location, outcome_of
from server.log import Log, Refused
from server.options import Options
from tests.config.drafts import DSPARK, DSPINE, NESTED, make
from tests.corpus import corpus_root
from tests.corpus_table.__main__ import main
from tests.corpus_table.render import render
from tests.corpus_table.run import Boot, real_boot
from tests.corpus_table.table import Table, build
from tests.geometry import QWEN3_8B

TARGET_8B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **QWEN3_8B}
TARGET_4B = {**TARGET_8B, "hidden_size": 2560, "intermediate_size": 9728}
DRAFT_8B = "dflash_nested/z-lab__Qwen3-8B-DFlash-b16.json"
DRAFT_4B = "dflash_nested/z-lab__Qwen3-4B-DFlash-b16.json"
FILES: Mapping[str, Any] = {
    DRAFT_8B: NESTED,
    "dspark_flat/someone__dspark.json": DSPARK,
    "dspine/someone__dspine.json": DSPINE,
    "medusa/someone__medusa.json": {"medusa_num_heads": 5, "medusa_num_layers": 1},
    "a_new_folder/someone__model.json": make(NESTED, {"hidden_size": 2560}),
    "target/Qwen__Qwen3-8B.json": TARGET_8B,
    "target/someone__fine-tune.json": TARGET_4B,
}


def make_folder(root: Path, changes: Mapping[str, Any] | None = None) -> Path:
    for name, content in {**FILES, **(changes or {})}.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return root


def faults(table: Table) -> list[str]:
    """What is wrong, file by file and pair by pair."""
    of_files = [
        f"{file.path.stem}: {fault}"
        for file in table.files
        for fault in (*file.wrong, *file.unstable, *file.traces)
    ]
    of_pairs = [
        f"{pair.draft.path.stem} with {pair.target.stem}: {fault}"
        for pair in table.pairs
        for fault in (*pair.wrong, *([pair.trace] if pair.trace else []))
    ]
    return of_files + of_pairs


def test_real_files_are_judged_as_they_should_be() -> None:
    table = build(corpus_root())
    assert not faults(table), render(table)
    fits = [pair for pair in table.served if pair.expected.accept]
    assert fits, "no real draft has its target in the folder"
    assert any(pair.expected.differences for pair in table.served if pair.draft.served)


def test_a_folder_without_a_fault_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (make_folder(tmp_path) / "SOURCES.tsv").write_text("file\tsource\n")
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "| dflash_nested | 1 | dflash (nested) x 1 | 1 | 0 | 0 | 0 | 0 |" in out
    assert "| a_new_folder | 1 | dflash (nested) x 1 | 0 | 0 | 1 | 0 | 0 |" in out
    assert "- right pairs accepted: 3 of 3" in out
    assert "- wrong pairs refused: 3 of 3" in out
    assert "| SD201 | SD201 hidden_size 4096 / 2560 |" in out
    assert "| dspine | 1 | 2 | 2 | 1 | 1 | 0 |" in out
    assert "- files not read, of another kind or in another place: 1" in out
    assert out.endswith("- result: all as expected\n")


def test_files_of_other_shapes_are_judged_all_the_same(tmp_path: Path) -> None:
    """A draft named as in a checkpoint, no JSON, JSON too deep, and targets of odd values."""
    changes = {
        "a_new_folder/config.json": NESTED,
        "a_new_folder/deep.json": '{"a":' * 900 + "1" + "}" * 900,
        "a_new_folder/list.json": "[1]",
        "target/empty.json": "",
        "target/large.json": {**TARGET_8B, "hidden_size": 10**280},
        "target/odd.json": {"architectures": {}, "rope_scaling": 5, "text_config": 3},
    }
    table = build(make_folder(tmp_path, changes))
    assert not faults(table)
    accepted = [(p.draft.path.stem, p.target.stem) for p in table.pairs if p.accepted]
    assert ("config", "Qwen__Qwen3-8B") in accepted
    assert {target for _, target in accepted} == {"Qwen__Qwen3-8B", "someone__fine-tune"}


def test_no_folder_and_an_empty_folder_are_usage_faults(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(SystemExit) as ended:
            main([str(folder)])
        assert ended.value.code == 2


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("medusa/x.json", NESTED, "x: named dflash, expected medusa"),
        ("speculators/x.json", {"speculators_model_type": "eagle3", "dspark_x": 1}, None),
        ("tensors/x.json", DSPARK, "x: named dspark, expected unknown or draft-model"),
        ("eagle/x.json", NESTED, "x: named dflash, expected unknown"),
        ("eagle/x.json", {"model_type": "eagle"}, None),
        ("dflash_flat/x.json", "{", None),
        ("dflash_flat/x.json", "{}", "x: named unknown, expected dflash"),
        # A file that no family claims, where one is expected that two may claim.
        ("eagle/x.json", {"x": 1}, "x: the refusal does not say undecided, eagle, draft-model"),
    ],
)
def test_a_wrong_family_is_found(
    tmp_path: Path, name: str, content: object, fault: str | None
) -> None:
    table = build(make_folder(tmp_path, {name: content}))
    found = [text for text in faults(table) if text.startswith("x: ")]
    assert found == ([fault] if fault else [])
    assert table.counts["wrong family or architecture"] == len(found)


def test_a_right_pair_that_is_refused_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name the draft is for Qwen3-4B; its file says otherwise, so one of them is wrong."""
    changes = {DRAFT_4B: make(NESTED, {"rope_theta": 2000000})}
    changes["target/Qwen__Qwen3-4B.json"] = TARGET_8B
    table = build(make_folder(tmp_path, changes))
    (wrong,) = faults(table)
    assert wrong.startswith("z-lab__Qwen3-4B-DFlash-b16 with Qwen__Qwen3-4B: refused (SD205), but")
    assert main([str(tmp_path)]) == 1
    assert "FAULTS FOUND" in capsys.readouterr().out


def test_another_model_of_the_same_facts_is_told_apart_by_nothing(tmp_path: Path) -> None:
    table = build(make_folder(tmp_path, {"target/Qwen__Qwen3-4B-2507.json": TARGET_8B}))
    (alike,) = [pair for pair in table.pairs if pair.expected.alike]
    assert (alike.draft.path.name, alike.target.stem) == (
        Path(DRAFT_8B).name,
        "Qwen__Qwen3-4B-2507",
    )
    assert not table.faulty
    assert "tells apart: 1" in render(table)


def without(rule: str) -> Boot:
    """The real boot of which one rule says nothing."""

    def boot(options: Options, log: Log) -> None:
        with suppress(Refused):
            real_boot(options, log)
        log.report.findings = [f for f in log.report.findings if f.rule != rule]

    return boot


def test_a_wrong_pair_that_is_accepted_is_found(tmp_path: Path) -> None:
    found = faults(build(make_folder(tmp_path), boot=without("SD201")))
    pair = f"{Path(DRAFT_8B).stem} with someone__fine-tune"
    assert f"{pair}: accepted, but it does not fit: facts" in found


def test_a_difference_that_is_not_told_is_found(tmp_path: Path) -> None:
    other = {**TARGET_4B, "vocab_size": 151936 + 64}
    folder = make_folder(tmp_path, {"target/someone__other.json": other})
    found = [text for text in faults(build(folder, boot=without("SD203"))) if "8B" in text]
    pair = f"{Path(DRAFT_8B).stem} with someone__other"
    assert found == [f"{pair}: SD203 does not tell vocab_size 151936 / 152000"]


def test_a_family_that_is_not_refused_is_found(tmp_path: Path) -> None:
    found = faults(build(make_folder(tmp_path), boot=without("SD306")))
    assert "someone__dspine with Qwen__Qwen3-8B: not refused for its family: accepted" in found


def test_a_traceback_is_found_and_counted(tmp_path: Path) -> None:
    def boot(options: Options, log: Log) -> None:
        if options.draft is not None and "medusa" in options.draft:
            raise KeyError("medusa_num_heads")
        real_boot(options, log)

    table = build(make_folder(tmp_path), boot=boot)
    assert "someone__medusa: KeyError: 'medusa_num_heads'" in faults(table)
    assert table.counts["traceback"] == 1 + 2  # the file, and its pairs
    assert "- traceback: `medusa/someone__medusa.json`: KeyError" in render(table)


def test_reports_that_differ_from_run_to_run_are_found(tmp_path: Path) -> None:
    numbers = count()

    def boot(options: Options, log: Log) -> None:
        where = Location("draft", value=next(numbers))
        log.tell(outcome_of("SD111", [finding("SD111", "a key is ignored", where)]))
        real_boot(options, log)

    table = build(make_folder(tmp_path), boot=boot)
    assert table.counts["unstable JSON or family"] == len(table.files)


def test_a_family_that_hangs_on_the_order_of_keys_is_found(tmp_path: Path) -> None:
    def boot(options: Options, log: Log) -> None:
        try:
            real_boot(options, log)
        finally:
            if log.report.draft is not None and log.report.draft.family == "medusa":
                first = next(iter(json.loads(Path(str(options.draft)).read_text())))
                log.report.draft = log.report.draft._replace(family=first)

    content = {"medusa_num_layers": 1, "medusa_num_heads": 5}
    folder = make_folder(tmp_path, {"medusa/someone__medusa.json": content})
    (unstable,) = [file.unstable for file in build(folder, boot=boot).files if file.unstable]
    assert unstable == ["keys reordered: medusa_num_heads (flat)"]
