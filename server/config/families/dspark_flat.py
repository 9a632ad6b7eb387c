"""DSpark in the flat (DeepSpec) schema: DFlash with a low-rank Markov head of type vanilla.

Source: deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py and markov_head.py.
"""

from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.families.block import HEAD_MARKS
from server.config.families.common import Subject
from server.config.families.flat import TENSORS, claim_flat, has_markov_head, read_flat
from server.config.families.model import Claim, DraftFile, Family, fault
from server.config.records import BlockDraft
from server.config.rules import finding
from server.findings import Finding


def claim(file: DraftFile) -> Claim:
    """A flat file with a markov_rank other than 0."""
    flat = claim_flat(file)
    if flat.evidence and not has_markov_head(file):
        rank = file.top("markov_rank")
        return Claim(reason=f"markov_rank is {rank.shown}, more than 0 is needed")
    return flat


def read(file: DraftFile) -> Reading[BlockDraft]:
    """Read every field and judge the file by itself; see `Reading`."""
    picked = {name: file.top(name) for name in ("markov_rank", "markov_head_type")}
    return read_flat(file, FAMILY.id, picked, *_CHECKS)


def _head_stated(subject: Subject) -> Iterator[Finding]:
    head = subject.file.top("markov_head_type")
    if head.value is None:
        rank = subject.file.top("markov_rank")
        message = f"draft markov_head_type is {head.shown}, markov_rank is {rank.shown}"
        yield finding("SD105", message, subject.file.at(head), subject.file.at(rank))


def _head_type(subject: Subject) -> Iterator[Finding]:
    head = subject.file.top("markov_head_type")
    if isinstance(head.value, str) and head.value != "vanilla":
        yield fault("SD305", subject.file, head, "vanilla is served")


_CHECKS: tuple[Check[Subject], ...] = (
    Check("SD105", (), _head_stated),
    Check("SD305", (), _head_type),
)

_TENSORS = TENSORS._replace(marks=HEAD_MARKS)
FAMILY = Family("dspark", "flat", served=True, claim=claim, read=read, tensors=_TENSORS)
