"""Each file by itself: the family that the gate names, tracebacks, and whether it says it twice."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.corpus_table.expected import (
    DRAFT_MODEL,
    NO_DRAFTS,
    TARGET_FOLDER,
    UNKNOWN,
    FamilyExpected,
    expected_family,
)
from tests.corpus_table.raw import Raw, load, reordered
from tests.corpus_table.run import Boot, Told, run
from tests.geometry import QWEN3_8B

_REFERENCE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    **QWEN3_8B,
}


@dataclass(frozen=True)
class FileResult:
    """One file, read as a draft or (`as_target`) as a target.

    `named` is the family and schema, or the target's architecture. `wrong`, `unstable` and
    `traces` say what is wrong, one entry for each fault; empty when nothing is.
    """

    path: Path
    folder: str
    named: str
    expected: tuple[str, ...]
    as_target: bool = False
    wrong: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)

    @property
    def faulty(self) -> bool:
        """True when anything is wrong."""
        return bool(self.wrong or self.unstable or self.traces)


def files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Every JSON file that lies in a folder of `root`, with the folder's name, sorted."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for path in sorted(folder.glob("*.json")):
            if path.is_file():
                yield folder.name, path


def judge_draft(folder: str, path: Path, work: Path, boot: Boot) -> FileResult:
    """The file as a draft against a plain Qwen3-8B target, twice and with its keys reordered.

    `work` is a folder for temporary files.
    """
    raw, target = load(path), work / "reference-target.json"
    target.write_text(json.dumps(_REFERENCE))
    told = run(target, path, boot)
    expected = expected_family(folder, raw)
    result = FileResult(path, folder, _shown(told), expected.families)
    _note_repeat(result, told, run(target, path, boot))
    result.wrong.extend(_wrong_family(folder, told, expected))
    other = work / f"reordered-{path.name}"
    for text in reordered(raw) if raw is not None else ():
        other.write_text(text)
        again = run(target, other, boot)
        if again.trace:
            result.traces.append(f"keys reordered: {again.last_line}")
        elif again.family != told.family:
            result.unstable.append(f"keys reordered: {_shown(again)}")
    return result


def judge_target(path: Path, boot: Boot) -> FileResult:
    """The file as a target, without a draft."""
    told, stated = run(path, None, boot), _architecture(load(path))
    named = told.report.target.architecture if told.report.target else None
    verdict = "accepted" if told.accepted else ", ".join(told.rules)
    result = FileResult(
        path, TARGET_FOLDER, f"{named}: {verdict}", tuple(filter(None, [stated])), as_target=True
    )
    _note_repeat(result, told, run(path, None, boot))
    if named != stated and not told.trace:
        result.wrong.append(f"architecture {named}, the file says {stated}")
    return result


def _note_repeat(result: FileResult, told: Told, again: Told) -> None:
    result.traces.extend(one.last_line for one in (told, again) if one.trace)
    if not result.traces and told.json_bytes() != again.json_bytes():
        result.unstable.append("two runs, two JSON reports")


def _wrong_family(folder: str, told: Told, expected: FamilyExpected) -> Iterator[str]:
    if told.trace or not expected.families:
        return
    family = told.family[0]
    if family not in expected.families:
        yield f"named {family}, expected {' or '.join(expected.families)}"
        return
    said = " ".join(finding.message for finding in told.errors)
    silent = [word for word in expected.says if word not in said]
    if silent and family == UNKNOWN:
        yield f"the refusal does not say {', '.join(silent)}"
    refusals = {UNKNOWN: "SD302", DRAFT_MODEL: "SD312"}
    readable = told.report.draft is not None and bool(told.report.draft.candidates)
    if folder in NO_DRAFTS and readable and refusals.get(family) not in told.rules:
        yield f"is no draft, and is not refused as one: {', '.join(told.rules) or 'no error'}"


def _shown(told: Told) -> str:
    family, schema = told.family
    return f"{family} ({schema})" if schema else family


def _architecture(raw: Raw | None) -> str | None:
    stated = (raw or {}).get("architectures")
    first = stated[0] if isinstance(stated, list) and stated else None
    return first if isinstance(first, str) else None
