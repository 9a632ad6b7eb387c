"""DFlash in the flat (DeepSpec) schema: the architecture says DSpark, markov_rank says DFlash.

Source: deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py.
"""

from collections.abc import Iterator

from server.config.checks import Check, Reading
from server.config.families.common import Subject
from server.config.families.flat import claim_flat, has_markov_head, read_flat
from server.config.families.model import Claim, DraftFile, Family
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
    picked = {"markov_rank": file.top("markov_rank")}
    return read_flat(file, FAMILY.id, picked, Check("SD105", (), _rank_stated))


def _rank_stated(subject: Subject) -> Iterator[Finding]:
    # A head type without a rank is half a DSpark file; with rank 0 it is a harmless leftover.
    file = subject.file
    rank, head = file.top("markov_rank"), file.top("markov_head_type")
    if not rank.present and head.value is not None:
        message = f"draft markov_rank is missing, markov_head_type is {shorten(head.value)}"
        yield finding("SD105", message, file.at(rank), file.at(head))


FAMILY = Family(id="dflash", schema_id="flat", served=True, claim=claim, read=read)
