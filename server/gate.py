"""The first half of the gate: find the draft, read its config, refuse what is not served.

The target is not looked for here, and nothing that only a pair needs is imported.
"""

import os
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
    """The draft after `ensure_servable`. `refused`: from here on only configs are read."""

    found: DraftFound
    refused: bool


def read_draft_config(options: Options, log: Log) -> DraftFound:
    """Find and read the draft's config. Tells nothing: the refusal has to come first."""
    if options.draft is None:
        return DraftFound(options, None, None, Outcome())
    checkpoint, outcome = find_checkpoint("draft", options.draft, options)
    draft = read_draft(checkpoint.config_path, options.strict) if checkpoint else None
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
        return None, outcome_of(error.rule, [finding(error.rule, error.message, where)])
    return Checkpoint(role, asked, folder / "config.json", folder, "embedded sample"), Outcome()


def _layout(draft: Draft | None) -> str | None:
    reading = draft.reading if draft else None
    layout = getattr(reading.partial, "layout", None) if reading else None
    return str(layout) if layout else None
