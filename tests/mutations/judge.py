"""A mutated draft before the whole gate: configs, pair, and a real header without its weights."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from server.config.draft import read_draft
from server.findings import Finding, Severity
from server.log import Log, Refused
from server.render.console import Console
from server.render.style import Style
from server.report import Report
from server.startup import boot
from server.weights.layout import draft_layout
from tests.boots import make_options
from tests.mutations.cases import Case
from tests.mutations.mutate import Mutant, mutants
from tests.weights.make import write_sparse


class Cell(NamedTuple):
    """What became of one mutant. `rules` are those that named the field."""

    field: str
    mutation: str
    verdict: str
    rules: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


REFUSED, UNNAMED, TOLD, SILENT = "refused", "unnamed", "told", "silent"


class Gate:
    """One case in a folder of its own, ready to be judged with changed texts."""

    def __init__(self, case: Case, folder: Path) -> None:
        """Write draft, header and target into `folder`, which exists and is empty."""
        self.case = case
        self._target = folder / "target.json"
        self._target.write_text(json.dumps(case.target))
        self._draft = folder / "draft"
        self._draft.mkdir()
        self._write(json.dumps(case.draft))
        reading = read_draft(self._draft / "config.json", strict=False).reading
        self.readable = reading is not None and reading.record is not None
        if reading is not None and reading.record is not None:
            layout = draft_layout(reading.record)
            write_sparse(self._draft / "model.safetensors", layout)
        self.refused, self._usual = self._boot()

    def cells(self) -> Iterator[Cell]:
        """The verdict on every mutant of the case."""
        only = self.case.only
        wanted = (m for m in mutants(self.case.draft) if not only or m.field in only)
        return map(self.judge, wanted)

    def judge(self, mutant: Mutant) -> Cell:
        """The verdict on one mutant; what the draft itself is told is left out."""
        self._write(mutant.text)
        refused, findings = self._boot()
        new = [f for f in findings if f not in self._usual]
        errors = [f for f in new if f.severity is Severity.ERROR]
        named = tuple(dict.fromkeys(f.rule for f in errors if names(f, mutant.keys)))
        if refused:
            every = tuple(dict.fromkeys(f.rule for f in errors))
            found = (REFUSED, named) if named else (UNNAMED, every)
            return Cell(mutant.field, mutant.mutation, *found)
        told = tuple(dict.fromkeys(f.rule for f in new if names(f, mutant.keys)))
        return Cell(mutant.field, mutant.mutation, TOLD if told else SILENT, told)

    def _write(self, text: str) -> None:
        (self._draft / "config.json").write_text(text)

    def _boot(self) -> tuple[bool, list[Finding]]:
        options = make_options(self._target, self._draft, check=True)
        log = Log(Report(), Console(None, Style()))
        try:
            boot(options, log)
        except Refused:
            return True, log.report.findings
        return False, log.report.findings


def names(finding: Finding, keys: tuple[str, ...]) -> bool:
    """True when the finding names one of `keys`: in its message, or as a place in the draft."""
    pointers = [place.pointer or "" for place in finding.locations if place.role == "draft"]
    steps = {step for pointer in pointers for step in pointer.split("/")}
    words = set(re.findall(r"\w+", finding.message))
    return not steps.isdisjoint(keys) or not words.isdisjoint(keys)
