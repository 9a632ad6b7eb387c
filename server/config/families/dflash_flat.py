"""DFlash in the flat (DeepSpec) schema: the architecture says DSpark, markov_rank says DFlash.

Source: deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py.
"""

from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.families.common import Subject
from server.config.families.flat import TENSORS, claim_flat, has_markov_head, read_flat
from server.config.families.model import Claim, DraftFile, Family
from server.config.fields import Picked, said
from server.config.records import BlockDraft
from server.config.rules import finding
from server.config.values import shorten
from server.findings import Finding


def claim(file: DraftFile) -> Claim:
    """A flat file whose markov_rank is 0 or absent."""
    flat = claim_flat(file)
    if flat.evidence and has_markov_head(file):
        rank = file.raw.get("markov_rank")
        return Claim(reason=f"markov_rank is {shorten(rank)}, 0 or none is needed")
    return flat


def read(file: DraftFile) -> Reading[BlockDraft]:
    """Read every field and judge the file by itself; see `Reading`."""
    picked = {"markov_rank": said(file.top("markov_rank"))}
    return read_flat(file, FAMILY.id, picked, *_CHECKS)


def _rank_stated(subject: Subject) -> Iterator[Finding]:
    # A head type without a rank is half a DSpark file; with rank 0 it is a harmless leftover.
    file = subject.file
    rank = file.top("markov_rank")
    for place in (file.top("markov_head_type"), _reads_markov(file)):
        if rank.value is None and place.value is not None:
            name = place.pointer.removeprefix("/")
            message = f"draft markov_rank is {rank.shown}, {name} is {shorten(place.value)}"
            yield finding("SD105", message, file.at(rank), file.at(place))
            return


def _rank_agrees(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    rank, width = file.top("markov_rank"), _reads_markov(file)
    if rank.value is not None and width.present:
        message = f"draft markov_rank is {shorten(rank.value)}, {width.pointer[1:]} is true"
        yield finding("SD110", message, file.at(rank), file.at(width))


def _reads_markov(file: DraftFile) -> Picked:
    """confidence_head_with_markov where it says that there is a Markov head to read."""
    width = file.top("confidence_head_with_markov")
    says_so = width.value is True and file.raw.get("enable_confidence_head") is True
    return width if says_so else Picked(None, width.pointer, present=False)


_CHECKS: tuple[Check[Subject], ...] = (
    Check("SD105", (), _rank_stated),
    Check("SD110", (), _rank_agrees),
)

FAMILY = Family("dflash", "flat", served=True, claim=claim, read=read, tensors=TENSORS)
