"""Resolved configurations: what the rest of the server may know of a checkpoint's config.json.

Readers (one per on-disk schema) build these; nothing else touches raw keys. All sizes are
counts of elements, heads, layers or tokens.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

# Upper bounds only keep arithmetic and loops finite; they are far above any model.
Count = Annotated[int, Field(gt=0, le=2**24)]
Tokens = Annotated[int, Field(gt=0, le=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Epsilon = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
LayerIds = Annotated[tuple[Annotated[int, Strict()], ...], Strict(False), Field(min_length=1)]
Dtype = Literal["bfloat16", "float16", "float32"]


class Record(BaseModel):
    """Base of every resolved record: strict (true is not 1, 16.0 is not 16) and frozen."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class Backbone(Record):
    """The Qwen3 decoder geometry that a target and a block draft share."""

    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Annotated[int, Field(gt=0, le=2**14)]
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count
    vocab_size: Count
    max_position_embeddings: Tokens
    rms_norm_eps: Epsilon
    rope_theta: Positive
    dtype: Dtype | None = None


class TargetConfig(Backbone):
    """A Qwen3 dense target. `architecture` is `architectures[0]` as the file has it.

    `model_types`: the file's own and that of its text_config. The token ids end or begin a text.
    """

    architecture: str
    tie_word_embeddings: bool = False
    model_types: tuple[str, ...] = ()
    eos_token_id: tuple[int, ...] = ()
    bos_token_id: tuple[int, ...] = ()


class AnchorLayout(StrEnum):
    """Which positions of a block are drafts.

    anchor-drop: position 0 repeats the verified token, K = block_size - 1.
    anchor-first: the anchor's own position already predicts, K = block_size.
    """

    DROP = "anchor-drop"
    FIRST = "anchor-first"


class BlockDraft(Backbone):
    """A drafter by what it is compared with a target by; records of other families extend it.

    The fields are those of a DFlash-shaped block drafter; one that a family lacks stays unresolved
    in its reading. `target_layer_ids`: ids of the captured target layers as the file has them; less
    `layer_id_shift` they are 0-based and name outputs, -1 that of the embedding.
    `num_target_layers`: depth of the target it was trained on. `target_hidden_size` is the width
    of what is captured, hidden_size where it is None; `draft_vocab_size` the rows of the draft's
    own head, vocab_size where it is None. `uses_dspine` is a marker only; no bridge dimension is
    kept, since nothing reads one.
    """

    family: str
    schema_id: str
    num_hidden_layers: Annotated[int, Field(gt=0, le=1024)]
    layer_id_shift: int = 0
    target_hidden_size: Count | None = None
    draft_vocab_size: Count | None = None
    target_model_type: str | None = None
    block_size: Annotated[int, Field(ge=2, le=2**16)]
    mask_token_id: Annotated[int, Field(ge=0, le=2**31)]
    target_layer_ids: LayerIds
    num_target_layers: Count
    layout: AnchorLayout
    uses_dspine: bool = False
    markov_rank: Annotated[int, Field(ge=0, le=2**20)] = 0
    markov_head_type: str | None = None
    enable_confidence_head: bool = False
    confidence_head_with_markov: bool = False

    @property
    def captured_outputs(self) -> tuple[int, ...]:
        """The captured layers' outputs, counted from 0; -1 is the embedding's."""
        return tuple(layer - self.layer_id_shift for layer in self.target_layer_ids)

    @property
    def draft_tokens(self) -> int:
        """K: how many tokens one block proposes."""
        return self.block_size - (self.layout is AnchorLayout.DROP)

    @property
    def verify_tokens(self) -> int:
        """Rows of one verify step per sequence: the anchor and K drafts."""
        return self.draft_tokens + 1
