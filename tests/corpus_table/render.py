"""The table as Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.corpus_table.files import FileResult
from tests.corpus_table.pairs import PairResult, shown
from tests.corpus_table.table import Table


def render(table: Table) -> str:
    """All four parts and the totals."""
    parts = (_folders(table), _targets(table), _served(table), _families(table), _totals(table))
    return "\n".join(line for part in parts for line in part)


def _grid(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |"
    yield ""


def _folders(table: Table) -> Iterator[str]:
    yield f"# Corpus table of `{table.root.name}`"
    yield ""
    yield "## 1. Files, each read as a draft"
    yield ""
    drafts = [file for file in table.files if not file.as_target]
    by_folder: dict[str, list[FileResult]] = {}
    for file in drafts:
        by_folder.setdefault(file.folder, []).append(file)
    head = ("folder", "files", "named", "right", "wrong", "not stated", "tracebacks", "unstable")
    yield from _grid(head, (_folder_row(*item) for item in by_folder.items()))
    yield from _faults(drafts)


def _folder_row(folder: str, files: Sequence[FileResult]) -> tuple[object, ...]:
    named = Counter(file.named for file in files)
    right = sum(bool(f.expected) and not f.wrong and not f.traces for f in files)
    return (
        folder,
        len(files),
        ", ".join(f"{name} x {count}" for name, count in named.items()),
        right,
        sum(bool(f.wrong) for f in files),
        sum(not f.expected for f in files),
        sum(bool(f.traces) for f in files),
        sum(bool(f.unstable) for f in files),
    )


def _faults(files: Iterable[FileResult]) -> Iterator[str]:
    faulty = [file for file in files if file.faulty]
    for file in faulty:
        for kind, faults in (
            ("wrong", file.wrong),
            ("traceback", file.traces),
            ("unstable", file.unstable),
        ):
            yield from (f"- {kind}: `{file.folder}/{file.path.name}`: {fault}" for fault in faults)
    if faulty:
        yield ""


def _targets(table: Table) -> Iterator[str]:
    yield "## 1b. Targets, each read as a target"
    yield ""
    targets = [file for file in table.files if file.as_target]
    rows = ((f"`{file.path.name}`", file.named) for file in targets)
    yield from _grid(("target", "architecture and verdict"), rows)
    yield from _faults(targets)


def _served(table: Table) -> Iterator[str]:
    yield "## 2. Drafts of served families against every target"
    yield ""
    pairs = table.served
    fits = [pair for pair in pairs if pair.expected.accept]
    misfits = [pair for pair in pairs if not pair.expected.accept and not pair.expected.alike]
    alike = [pair for pair in pairs if pair.expected.alike]
    yield f"- right pairs accepted: {sum(p.accepted for p in fits)} of {len(fits)}"
    yield f"- wrong pairs refused: {_refused(misfits)} of {len(misfits)}"
    read = [pair for pair in misfits if pair.draft.served]
    told = sum(not pair.wrong and not pair.trace for pair in read)
    yield f"- of these with every difference told, both values of it: {told} of {len(read)}"
    yield f"- of these refused for the draft's own schema: {_refused(misfits) - _refused(read)}"
    yield f"- pairs of another model that no fact of the two files tells apart: {len(alike)}"
    yield ""
    yield "Accepted:"
    yield ""
    accepted = [(*_names(pair), pair.expected.ground) for pair in pairs if pair.accepted]
    yield from _grid(("draft", "target", "ground"), accepted)
    yield "Refused:"
    yield ""
    head = ("draft", "target", "rules", "expected to be told")
    yield from _grid(head, (_refusal(pair) for pair in pairs if not pair.accepted))
    yield from _verdict_faults(table)


def _refused(pairs: Iterable[PairResult]) -> int:
    return sum(not pair.accepted and not pair.trace for pair in pairs)


def _names(pair: PairResult) -> tuple[str, str]:
    return f"`{pair.draft.folder}/{pair.draft.path.stem}`", f"`{pair.target.stem}`"


def _refusal(pair: PairResult) -> tuple[str, ...]:
    expected = pair.expected
    reasons = [f"{d.rule} {shown(d)}" for d in expected.differences if pair.draft.served]
    reasons += [f"{rule} {what}" for rule, what in expected.obstacles.items()]
    reasons += [f"not stated: {what}" for what in expected.unstated]
    return (*_names(pair), ", ".join(pair.rules) or "traceback", "; ".join(reasons))


def _verdict_faults(table: Table) -> Iterator[str]:
    faulty = [pair for pair in table.pairs if pair.wrong or pair.trace]
    for pair in faulty:
        draft, target = _names(pair)
        yield from (f"- wrong: {draft} with {target}: {what}" for what in pair.wrong)
        if pair.trace:
            yield f"- traceback: {draft} with {target}: {pair.trace}"
    if faulty:
        yield ""


def _families(table: Table) -> Iterator[str]:
    yield "## 3. All drafts against every target, by family"
    yield ""
    by_family: dict[str, list[PairResult]] = {}
    for pair in table.pairs:
        by_family.setdefault(pair.family, []).append(pair)
    rows = (
        (
            family,
            len({pair.draft.path for pair in pairs}),
            len(pairs),
            sum(pair.judged for pair in pairs),
            sum(bool(pair.pair_errors) for pair in pairs),
            sum(pair.judged and not pair.pair_errors for pair in pairs),
            sum(pair.accepted for pair in pairs),
        )
        for family, pairs in sorted(by_family.items())
    )
    head = ("family", "drafts", "pairs", "judged by pair rules", "mismatch", "none", "accepted")
    yield from _grid(head, rows)


def _totals(table: Table) -> Iterator[str]:
    yield "## 4. Totals"
    yield ""
    drafts = sum(not file.as_target for file in table.files)
    yield f"- files: {drafts}, {len(table.files) - drafts} of them also read as targets"
    yield f"- files not read, of another kind or in another place: {table.not_read}"
    yield f"- pairs: {len(table.pairs)}, {len(table.served)} of them of served families"
    yield from (f"- {kind}: {count}" for kind, count in table.counts.items())
    yield f"- result: {'FAULTS FOUND' if table.faulty else 'all as expected'}"
