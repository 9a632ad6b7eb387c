"""The whole table: every file, every pair, and the counts that decide the exit code."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.corpus_table.expected import NO_DRAFTS, TARGET_FOLDER
from tests.corpus_table.files import FileResult, files_of, judge_draft, judge_target
from tests.corpus_table.pairs import PairResult, drafts_among, judge_pair
from tests.corpus_table.raw import load
from tests.corpus_table.run import Boot, real_boot


@dataclass(frozen=True)
class Table:
    """What was found in the folder `root`; `not_read` counts files of another kind or place."""

    root: Path
    files: list[FileResult]
    pairs: list[PairResult]
    not_read: int

    @property
    def served(self) -> list[PairResult]:
        """Pairs of drafts that should be served."""
        return [pair for pair in self.pairs if pair.draft.servable]

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of fault was found."""
        return Counter(
            {
                "wrong family or architecture": sum(bool(f.wrong) for f in self.files),
                "traceback": sum(bool(f.traces) for f in self.files)
                + sum(bool(pair.trace) for pair in self.pairs),
                "unstable JSON or family": sum(bool(f.unstable) for f in self.files),
                "pair with a wrong verdict or without its reasons": sum(
                    bool(pair.wrong) for pair in self.pairs
                ),
            }
        )

    @property
    def faulty(self) -> bool:
        """True when anything is wrong."""
        return self.counts.total() > 0


def build(root: Path, boot: Boot = real_boot) -> Table:
    """Judge every file and every pair of `root`. Raises OSError when it cannot be listed.

    `boot` runs one boot.
    """
    found = list(files_of(root))
    with tempfile.TemporaryDirectory() as work:
        files = [judge_draft(folder, path, Path(work), boot) for folder, path in found]
    targets = [path for folder, path in found if folder == TARGET_FOLDER]
    files += [judge_target(path, boot) for path in targets]
    raws = [(path, raw) for path in targets if (raw := load(path)) is not None]
    drafts = drafts_among((f, path) for f, path in found if f not in NO_DRAFTS)
    pairs = [judge_pair(draft, target, boot) for draft in drafts for target in raws]
    not_read = sum(path.is_file() for path in root.rglob("*")) - len(found)
    return Table(root, files, pairs, not_read)
