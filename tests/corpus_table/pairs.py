"""Every draft against every target: the verdict, and whether it was given for the right reasons."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from server.config.draft import read_draft
from server.findings import Finding
from tests.corpus_table.expected import PairExpected, expected_pair, servable
from tests.corpus_table.raw import Difference, Raw, load
from tests.corpus_table.run import Boot, Told, run

# SD103: the file is no JSON that can be read.
_FAMILY_RULES = frozenset(("SD103", "SD302", "SD306", "SD312"))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Draft:
    """One draft file; `servable` is expected of it, `served` is what the gate says."""

    path: Path
    folder: str
    raw: Raw
    servable: bool
    served: bool


@dataclass(frozen=True)
class PairResult:
    """One draft with one target. `wrong` says what is wrong with the verdict; empty: nothing.

    `judged`: pair rules ran; `pair_errors` are those that refuse.
    """

    draft: Draft
    target: Path
    family: str
    accepted: bool
    rules: tuple[str, ...]
    judged: bool
    pair_errors: tuple[str, ...]
    expected: PairExpected
    wrong: list[str] = field(default_factory=list)
    trace: str = ""


def drafts_among(files: Iterator[tuple[str, Path]]) -> Iterator[Draft]:
    """The files that hold an object, as drafts. Never raises."""
    for folder, path in files:
        raw = load(path)
        if raw is None:
            continue
        try:
            served = read_draft(path, strict=False).served
        except Exception:  # the run of the pair tells it, as the file's own run does
            served = False
        yield Draft(path, folder, raw, servable(folder, served), served)


def judge_pair(draft: Draft, target: tuple[Path, Raw], boot: Boot) -> PairResult:
    """Run the gate on one pair and compare. Never raises."""
    told = run(target[0], draft.path, boot)
    expected = expected_pair((draft.path, draft.raw), target)
    result = PairResult(
        draft=draft,
        target=target[0],
        family=told.family[0],
        accepted=told.accepted,
        rules=tuple(told.rules),
        judged=told.pair_judged,
        pair_errors=tuple(told.pair_errors),
        expected=expected,
        trace=told.last_line,
    )
    if not told.trace:
        result.wrong.extend(_wrong(told, draft, expected))
    return result


def _wrong(told: Told, draft: Draft, expected: PairExpected) -> Iterator[str]:
    if not draft.servable:
        if _FAMILY_RULES.isdisjoint(told.rules):
            yield f"not refused for its family: {', '.join(told.rules) or 'accepted'}"
    elif expected.accept:
        if not told.accepted:
            yield f"refused ({', '.join(told.rules)}), but it fits: {expected.ground}"
    elif not told.accepted:
        yield from _untold(told, draft, expected)
    elif not expected.alike:
        yield f"accepted, but it does not fit: {expected.ground}"


def _untold(told: Told, draft: Draft, expected: PairExpected) -> Iterator[str]:
    """What speaks against the pair and was not told; of a draft that is not read, its family."""
    for rule, what in expected.obstacles.items():
        if rule not in told.rules and (draft.served or rule in _FAMILY_RULES):
            yield f"{rule} does not tell: {what}"
    for difference in expected.differences if draft.served else ():
        if not any(_tells(finding, difference) for finding in told.errors):
            yield f"{difference.rule} does not tell {shown(difference)}"


def shown(difference: Difference) -> str:
    """A difference in words, such as "hidden_size 2560 / 4096"."""
    sides = [f"{v:.10g}" if isinstance(v, float) else v for v in difference[2:]]
    return f"{difference.fact} {' / '.join(sides)}"


def _tells(finding: Finding, difference: Difference) -> bool:
    """True when the message of the right rule holds both values."""
    if finding.rule != difference.rule:
        return False
    values, message = {difference.draft, difference.target}, finding.message
    if difference.fact == "architecture":
        return all(str(value) in message for value in values)
    return values <= {float(number) for number in _NUMBER.findall(message)}
