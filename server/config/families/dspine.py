"""DSpine: a DFlash draft with a bridge (selected_prefix_code_bridge). Recognised, never served.

Source: pegainfer-project/pegainfer pull request 1172. The bridge is read inside dflash_config
only; there is no flat schema. The record says that the file is DSpine and keeps nothing of the
bridge, since nothing reads it.
"""

from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.families.common import (
    Subject,
    given_layout,
    given_names,
    judge_bridged,
    other_architecture,
    pick_draft,
    read_draft_record,
)
from server.config.families.dflash_nested import ARCHITECTURES
from server.config.families.dspine_names import (
    BRIDGE,
    NESTED,
    PREFIX,
    SECOND_PASS,
    TOLD_BY_OWN_RULE,
    TRAINING_PART,
)
from server.config.families.dspine_places import bridge_missing, deciding_places
from server.config.families.dspine_rules import CHECKS
from server.config.families.keys import ignored_top, unknown_nested
from server.config.families.model import Claim, DraftFile, Family
from server.config.fields import given
from server.config.records import AnchorLayout, BlockDraft
from server.findings import Finding


def claim(file: DraftFile) -> Claim:
    """A bridge, or any other key that only DSpine has, where the reference reads it."""
    evidence = deciding_places(file)
    return Claim(evidence) if evidence else Claim(reason=f"no dflash_config.{BRIDGE}")


def read(file: DraftFile) -> Reading[BlockDraft]:
    """Read the DFlash fields, and judge the file by DFlash's rules and by DSpine's own."""
    picked = pick_draft(file) | given_names(FAMILY.id, FAMILY.schema_id)
    picked["layout"] = given_layout(AnchorLayout.DROP)
    picked["uses_dspine"] = given(True)
    reading = read_draft_record(file, picked)
    waits = {BRIDGE: "SD320"} if bridge_missing(file) else {}
    return judge_bridged(Subject(file, reading), waits, *CHECKS, *_CHECKS)


def _architecture(subject: Subject) -> Iterator[Finding]:
    return other_architecture(subject.file, ARCHITECTURES, "is needed")


def _known_nested(file: DraftFile) -> frozenset[str]:
    teacher = (k for k in file.nested if k.startswith(PREFIX) and TRAINING_PART in k)
    return frozenset((*NESTED, *TOLD_BY_OWN_RULE, SECOND_PASS, *teacher))


_CHECKS: tuple[Check[Subject], ...] = (
    Check("SD303", (), _architecture),
    Check("SD109", (), lambda s: unknown_nested(s.file, _known_nested(s.file))),
    Check("SD111", (), lambda s: ignored_top(s.file, TOLD_BY_OWN_RULE)),
)

FAMILY = Family(id="dspine", schema_id="nested", served=False, claim=claim, read=read)
