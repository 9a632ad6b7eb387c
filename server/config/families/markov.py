"""What DSpark's schemas share that are not served: a record, the rule of its heads, tensors.

Sources: sgl-project/SpecForge specforge/modeling/draft/dspark.py (heads and their inputs, names
of earlier checkpoints), pegainfer-project/pegainfer pegainfer-k3/src/executor/dspark/mod.rs.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from server.config.checks import Check
from server.config.families.block import (
    BLOCK_REQUIRED,
    CONFIDENCE_FIELDS,
    HEAD_MARKS,
    MARKOV_NEEDS,
    block_tensors,
    confidence_tensors,
    markov_tensors,
)
from server.config.families.common import Subject
from server.config.families.relations import told
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, Tensors
from server.findings import Finding

REQUIRED = (*BLOCK_REQUIRED, "markov_rank")


class DSparkDraft(BlockDraft):
    """A block draft with DSpark's heads; rank 0 is none. No head type means vanilla."""

    markov_rank: Annotated[int, Field(ge=0, le=2**20)]
    markov_head_type: Literal["vanilla", "gated", "rnn"] | None = None


def _reads_markov(subject: Subject) -> Iterator[Finding]:
    draft = subject.reading.partial
    if draft.enable_confidence_head and draft.confidence_head_with_markov and not draft.markov_rank:
        message = "draft markov_rank is 0, confidence_head_with_markov is true"
        fields = ("markov_rank", "confidence_head_with_markov")
        yield told(subject, "SD110", message, *fields)


MARKOV_CHECKS = (Check("SD110", ("markov_rank", *CONFIDENCE_FIELDS), _reads_markov),)


def _tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    yield from block_tensors(draft)
    yield from markov_tensors(draft)
    yield from confidence_tensors(draft)


TENSORS = Tensors(MARKOV_NEEDS, _tensors, aliases=(("logit_head.", ""),), marks=HEAD_MARKS)
