"""The exact tensors of each model, computed from its config. Names are the checkpoint's names.

Sources: transformers src/transformers/models/qwen3/modeling_qwen3.py; those of each drafter
family are in its module (`server/config/families/`).
"""

from server.config.families import known_families
from server.config.layers import qwen3_layers
from server.config.records import BlockDraft, TargetConfig
from server.config.tensors import ExpectedTensor, expect


def target_layout(target: TargetConfig) -> tuple[ExpectedTensor, ...]:
    """The tensors of a Qwen3 target. With tied embeddings a shipped head is not loaded."""
    untied = not target.tie_word_embeddings
    table = ("vocab_size", "hidden_size")
    return (
        expect(target, "model.embed_tokens.weight", *table),
        *qwen3_layers(target, "model."),
        expect(target, "model.norm.weight", "hidden_size"),
        expect(target, "lm_head.weight", *table, needed=untied, loaded=untied),
    )


def draft_layout(draft: BlockDraft) -> tuple[ExpectedTensor, ...]:
    """The tensors of a draft's family, without the `model.` prefix of some exports.

    Raises LookupError when the tensors of its family are not known.
    """
    for family in known_families():
        if (family.id, family.schema_id) == (draft.family, draft.schema_id) and family.tensors:
            return tuple(family.tensors.expected(draft))
    raise LookupError(f"the tensors of {draft.family} ({draft.schema_id}) are not known")
