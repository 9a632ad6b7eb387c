"""What a Medusa draft states, and the tensors of its heads.

Sources: vllm-project/vllm vllm/model_executor/models/medusa.py, vllm-project/speculators
src/speculators/models/medusa/config.py and core.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from server.config.families.model import DraftFile
from server.config.fields import Picked, said
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, expect

_HEADS_LIMIT = 256
MEDUSA_NEEDS = (
    *("hidden_size", "vocab_size", "num_hidden_layers", "num_heads", "draft_vocab_size"),
    *("medusa_fc_bias", "original_lm_head"),
)


class MedusaDraft(BlockDraft):
    """`num_heads` heads of `num_hidden_layers` residual blocks; each drafts one position."""

    num_heads: Annotated[int, Field(gt=0, le=_HEADS_LIMIT)]
    medusa_fc_bias: bool = False
    original_lm_head: bool = False


def reduced(file: DraftFile) -> Picked:
    """The rows of the heads' own vocabulary; 0 and null mean the whole one."""
    place = said(file.top("truncated_vocab_size"))
    whole = type(place.value) is int and place.value == 0
    return place._replace(present=place.present and not whole)


def medusa_tensors(heads: MedusaDraft) -> Iterator[ExpectedTensor]:
    """For each head its blocks [H, H] and, unless the target's is used, a head [vocab, H]."""
    rows = ("draft_vocab_size", "hidden_size")
    for i in range(heads.num_heads):
        for j in range(heads.num_hidden_layers):
            name = f"blocks.{i}.layers.{j}"
            yield expect(heads, f"{name}.weight", "hidden_size", "hidden_size")
            if heads.medusa_fc_bias:
                yield expect(heads, f"{name}.bias", "hidden_size")
        own = not heads.original_lm_head
        yield expect(heads, f"lm_heads.{i}.weight", *rows, needed=own, loaded=own)
    yield expect(heads, "lm_head.weight", *rows, needed=False, loaded=False)
    token_map = expect(heads, "token_map", "draft_vocab_size", needed=False, loaded=False)
    yield replace(token_map, dtypes=("I64",))
