"""The fields and the tensors that DFlash and its relatives share, stated once for all of them.

Sources: z-lab/dflash dflash/model.py, deepseek-ai/DeepSpec deepspec/modeling/dspark.
"""

from collections.abc import Iterator
from dataclasses import replace

from server.config.layers import SIZES, qwen3_layers
from server.config.records import BlockDraft
from server.config.tensors import FC_COLUMNS, ExpectedTensor, expect

BLOCK_REQUIRED = ("block_size", "mask_token_id", "target_layer_ids")
BLOCK_NEEDS = (*SIZES, "target_layer_ids", "target_hidden_size")
CONFIDENCE_FIELDS = ("enable_confidence_head", "confidence_head_with_markov")
MARKOV_FIELDS = ("markov_rank", "markov_head_type", *CONFIDENCE_FIELDS)
MARKOV_NEEDS = (*BLOCK_NEEDS, *MARKOV_FIELDS)
HEAD_MARKS = ("markov_head.", "confidence_head.")


def block_tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """The backbone: fc.weight [H, captured * H_target], two norms, decoder layers."""
    yield expect(draft, "fc.weight", "hidden_size", FC_COLUMNS)
    yield expect(draft, "hidden_norm.weight", "hidden_size")
    yield from qwen3_layers(draft)
    yield expect(draft, "norm.weight", "hidden_size")


def shipped_embedding(draft: BlockDraft) -> ExpectedTensor:
    """A frozen copy of the target's embedding, which a draft may ship."""
    table = ("vocab_size", "hidden_size")
    return expect(draft, "embed_tokens.weight", *table, needed=False, loaded=False)


def shipped_tables(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """Frozen copies of the target's embedding and head."""
    yield shipped_embedding(draft)
    table = ("vocab_size", "hidden_size")
    yield expect(draft, "lm_head.weight", *table, needed=False, loaded=False)


def markov_tensors(
    draft: BlockDraft, prefix: str = "markov_head.", rows: str = "vocab_size"
) -> Iterator[ExpectedTensor]:
    """The Markov head: two tables, and what a gated or recurrent one adds. None for rank 0.

    `rows` are those of the second table.
    """
    if not draft.markov_rank:
        return
    yield expect(draft, f"{prefix}markov_w1.weight", "vocab_size", "markov_rank")
    yield expect(draft, f"{prefix}markov_w2.weight", rows, "markov_rank")
    if draft.markov_head_type == "gated":
        yield expect(draft, f"{prefix}gate_proj.weight", "markov_rank", "hidden_size+markov_rank")
        yield expect(draft, f"{prefix}gate_proj.bias", "markov_rank")
    if draft.markov_head_type == "rnn":
        wide = ("3*markov_rank", "2*markov_rank+hidden_size")
        yield expect(draft, f"{prefix}joint_proj.weight", *wide)
        yield expect(draft, f"{prefix}joint_proj.bias", "3*markov_rank")


def confidence_tensors(
    draft: BlockDraft, name: str = "confidence_head.proj"
) -> Iterator[ExpectedTensor]:
    """The confidence head, which only predicts acceptance: shipped, and never loaded."""
    width = "hidden_size+markov_rank" if draft.confidence_head_with_markov else "hidden_size"
    needed = draft.enable_confidence_head
    weight = expect(draft, f"{name}.weight", "1", width, needed=needed, loaded=False)
    yield replace(weight, because="confidence_head_with_markov")
    yield expect(draft, f"{name}.bias", "1", needed=needed, loaded=False)
