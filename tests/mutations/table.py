"""The table of fields and mutations, and the totals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.mutations.cases import FIXTURES, Case, real_pairs
from tests.mutations.harmless import Key, grounds
from tests.mutations.judge import REFUSED, SILENT, TOLD, UNNAMED, Cell, Gate
from tests.mutations.mutate import MUTATIONS

HARMLESS = "harmless"
COLUMNS = (REFUSED, TOLD, HARMLESS, UNNAMED, SILENT)
FAULTS = (UNNAMED, SILENT)


class Judged(NamedTuple):
    """Every cell of one case; `served` is False for a pair that the gate refuses as it is."""

    case: Case
    served: bool
    cells: tuple[Cell, ...]

    def faults(self) -> list[str]:
        """One line for each cell that must not be."""
        return [
            f"{self.case.name}: {cell.field}, {cell.mutation}: {_shown(cell)}"
            for cell in self.cells
            if cell.verdict in FAULTS
        ]


def judge_case(case: Case) -> Judged:
    """Every mutant of one case; none when the draft itself is refused."""
    with TemporaryDirectory() as folder:
        gate = Gate(case, Path(folder))
        if gate.refused:
            return Judged(case, False, ())
        return Judged(case, True, tuple(_excused(case.schema, gate.cells())))


def judge_fixtures() -> list[Judged]:
    """The cells of every fixture."""
    return [judge_case(case) for case in FIXTURES]


def judge_real(root: Path, folder: str) -> Iterator[Judged]:
    """The cells of each real draft of `folder` that a real target serves, with the first such."""
    done: set[str] = set()
    for case in real_pairs(root, folder):
        if case.name not in done and (judged := judge_case(case)).served:
            done.add(case.name)
            yield judged


def unused(judged: Iterable[Judged]) -> list[Key]:
    """The entries of the harmless list that no cell needs."""
    needed = {
        (of.case.schema, cell.field, cell.mutation)
        for of in judged
        for cell in of.cells
        if cell.verdict == HARMLESS
    }
    return [key for key in grounds() if key not in needed]


def markdown(judged: Judged) -> str:
    """One case as a Markdown table: a row for each field, a column for each mutation."""
    cells = {(cell.field, cell.mutation): _shown(cell) for cell in judged.cells}
    fields = dict.fromkeys(cell.field for cell in judged.cells)
    rows = [[field, *(cells.get((field, name), "") for name in MUTATIONS)] for field in fields]
    head = ["field", *MUTATIONS]
    lines = [head, ["---"] * len(head), *rows]
    return f"## {judged.case.name}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def totals(judged: Sequence[Judged]) -> str:
    """How many cells of each verdict, for each case and in all."""
    counts = {of.case.name: Counter(cell.verdict for cell in of.cells) for of in judged}
    counts["all"] = sum(counts.values(), Counter())
    lines = [["draft", "mutants", *COLUMNS], ["---"] * (len(COLUMNS) + 2)]
    for name, found in counts.items():
        lines.append([name, str(found.total()), *(str(found[column]) for column in COLUMNS)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _excused(schema: str, cells: Iterable[Cell]) -> Iterator[Cell]:
    known = grounds()
    for cell in cells:
        harmless = cell.verdict == SILENT and (schema, cell.field, cell.mutation) in known
        yield cell._replace(verdict=HARMLESS) if harmless else cell


def _shown(cell: Cell) -> str:
    rules = " ".join(cell.rules)
    if cell.verdict == REFUSED:
        return rules
    word = cell.verdict.upper() if cell.verdict in FAULTS else cell.verdict
    return f"{word} {rules}".rstrip()
