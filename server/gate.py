"""The first half of the gate: find the draft, read its config, refuse what is not served.

The target is not looked for here, and nothing that only a pair needs is imported.
"""

import os
from dataclasses import replace
from typing import NamedTuple

from server.cache import cache_folder
from server.config.draft import Draft, ensure_servable, read_draft
from server.config.locate import Checkpoint, Places, locate
from server.config.rules import finding
from server.findings import Location, Outcome, outcome_of
from server.log import Log
from server.options import Options
from server.report import DraftFacts

SAMPLE = "sample:"
# The rules that say that a folder holds no safetensors file, which is no fault of a refused draft.
NO_WEIGHTS = frozenset(("SD405", "SD412"))


class DraftFound(NamedTuple):
    """The draft as far as it could be found and read; nothing of it is told yet.

    `draft` is None when none was asked for, or when it was not found (see `outcome`).
    """

    options: Options
    checkpoint: Checkpoint | None
    draft: Draft | None
    outcome: Outcome

    @property
    def missing(self) -> bool:
        """True when a draft was asked for and there is nothing to read."""
        return self.options.draft is not None and self.draft is None


class Servable(NamedTuple):
    """The draft after `ensure_servable`. `refused`: the target's weights are not looked at."""

    found: DraftFound
    refused: bool

    @property
    def ends_with_configs(self) -> bool:
        """True when no header is opened: the draft is refused, and its tensors are not stated.

        So it is for DSpine, of which no file of weights is ever opened.
        """
        return self.refused and (self.found.draft is None or self.found.draft.tensors is None)


def read_draft_config(options: Options, log: Log) -> DraftFound:
    """Find and read the draft's config. Tells nothing: the refusal has to come first."""
    if options.draft is None:
        return DraftFound(options, None, None, Outcome())
    checkpoint, outcome = find_checkpoint("draft", options.draft, options)
    draft = _read(checkpoint, options.strict) if checkpoint else None
    log.report.draft = DraftFacts(
        asked=options.draft,
        path=str(checkpoint.config_path) if checkpoint else None,
        family=draft.family if draft else None,
        schema=draft.schema_id if draft else None,
        layout=_layout(draft),
        how=checkpoint.how if checkpoint else None,
        candidates=draft.candidates if draft else {},
    )
    return DraftFound(options, checkpoint, draft, outcome)


def refuse_unservable(found: DraftFound, log: Log) -> Servable:
    """Refuse a family that this server does not serve; the target has not been looked for."""
    log.tell(found.outcome)
    if found.draft is None:
        return Servable(found, refused=found.missing)
    refusal = ensure_servable(found.draft, found.options.spec_method)
    log.tell(refusal)
    log.tell(found.draft.outcome)
    return Servable(found, refused=refusal.refused or found.draft.reading is None)


def find_checkpoint(role: str, asked: str, options: Options) -> tuple[Checkpoint | None, Outcome]:
    """The checkpoint that `asked` means: a path, a name, or one of the samples. Never raises."""
    if not asked.startswith(SAMPLE):
        return locate(role, asked, Places(options.model_dir, options.revision, os.environ))
    from server.weights.sample import SampleError, materialise

    try:
        folder = materialise(asked, cache_folder(os.environ))
    except SampleError as error:
        file = str(error.path) if error.path else None
        where = Location(role, file=file, flag=f"--{role}", value=asked)
        fix = None if file else "give one of these names"
        return None, outcome_of(error.rule, [finding(error.rule, error.message, where, fix=fix)])
    return Checkpoint(role, asked, folder / "config.json", folder, "embedded sample"), Outcome()


def _read(checkpoint: Checkpoint, strict: bool) -> Draft:
    """The draft by its config; by its tensors as well where no config can tell two families."""
    draft = read_draft(checkpoint.config_path, strict)
    if not draft.undecided or checkpoint.folder is None:
        return draft
    from server.weights.index import read_inventory  # few drafts need it

    inventory, outcome = read_inventory("draft", checkpoint.folder)
    if inventory is None and NO_WEIGHTS.issuperset(f.rule for f in outcome.findings):
        return draft
    if inventory is None:
        return replace(draft, outcome=draft.outcome + outcome)
    return read_draft(checkpoint.config_path, strict, frozenset(inventory.tensors))


def _layout(draft: Draft | None) -> str | None:
    reading = draft.reading if draft else None
    layout = getattr(reading.partial, "layout", None) if reading else None
    return str(layout) if layout else None
