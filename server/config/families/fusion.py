"""What DFlare and DFly share: each draft layer mixes the captured layers with weights of its own.

The mix is added to, or read like, the draft's hidden state, so both have one width. Sources:
Tencent/AngelSpec angelspec/models/draft/dflare.py and dfly.py, Tencent/AngelSlim
angelslim/compressor/speculative/train/models/draft/qwen_dflare.py.
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.common import Subject
from server.config.families.relations import told
from server.config.records import BlockDraft
from server.config.tensors import ExpectedTensor, expect
from server.findings import Finding

DFLARE_MARKS = ("k_proj_target.", "v_proj_target.")


def fusion_weights(draft: BlockDraft) -> ExpectedTensor:
    """layer_fusion_weights [draft layers, captured layers]."""
    return expect(draft, "layer_fusion_weights", "num_hidden_layers", "len(target_layer_ids)")


def context_projections(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """Of each layer, the projections of the captured state to keys and values."""
    rows = "num_key_value_heads*head_dim"
    for layer in range(draft.num_hidden_layers):
        for side in ("k", "v"):
            name = f"layers.{layer}.self_attn.{side}_proj_target.weight"
            yield expect(draft, name, rows, "hidden_size")


def same_width(subject: Subject) -> Iterator[Finding]:
    """SD110 when the captured width is stated and is not the draft's own."""
    draft = subject.reading.partial
    if draft.target_hidden_size not in (None, draft.hidden_size):
        message = (
            f"draft target_hidden_size is {draft.target_hidden_size}, hidden_size is "
            f"{draft.hidden_size}; captured layers are mixed at the draft's width"
        )
        yield told(subject, "SD110", message, "target_hidden_size", "hidden_size")


SAME_WIDTH = Check("SD110", ("target_hidden_size", "hidden_size"), same_width)
