"""The block drafter (DFlash, DSpark): drafts a whole block in one pass over target features.

Arithmetic as in z-lab/dflash dflash/model.py and deepseek-ai/DeepSpec
deepspec/modeling/dspark/qwen3/modeling.py. In each layer the context's keys and values are
projections of `hidden_norm(fc(features))`, the same for all layers and free of the layer's input
norm; they depend on nothing else, so they stay valid for the rest of the sequence and live in the
pool. The block's rows follow the context, see it and each other in full, and are discarded: the
next context overwrites their slots.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from server.config.records import AnchorLayout, BlockDraft
from server.model.attention import PagedContext
from server.model.kv import Span
from server.model.layers import DecoderLayers, KvContext, RmsNorm, Rotation, SplitRows
from server.model.markov import MarkovHead
from server.model.parallel import Group


class BlockDrafter(nn.Module):
    """A block drafter. Embedding and head are the target's; parameter names the checkpoint's."""

    def __init__(self, draft: BlockDraft, target_hidden_size: int, group: Group) -> None:
        """Take the weights on the current default device; they are not initialised."""
        super().__init__()
        self.config = draft
        columns = len(draft.target_layer_ids) * target_hidden_size
        self.fc = SplitRows(draft.hidden_size, columns, group)
        self.hidden_norm = RmsNorm(draft.hidden_size, draft.rms_norm_eps)
        self.layers = DecoderLayers(draft, group)
        self.norm = RmsNorm(draft.hidden_size, draft.rms_norm_eps)
        self.markov_head: MarkovHead | None = None
        if draft.markov_rank:
            self.markov_head = MarkovHead(draft.vocab_size, draft.markov_rank, group)

    def context(self, features: Tensor) -> Tensor:
        """Target features `[rows, captured * target hidden]` to context rows `[rows, hidden]`."""
        rows: Tensor = self.hidden_norm(self.fc(features))
        return rows

    def extend(self, features: Tensor, storage: Tensor, spans: Sequence[Span]) -> None:
        """Write the context keys and values of committed positions to the draft's pool.

        `features` holds the rows of all spans, one span after the other.
        """
        rows = self.context(features)
        paged = PagedContext(storage, spans)
        rotation = Rotation.at(paged.positions, self.config, rows.dtype)
        for index, layer in self.layers.numbered():
            paged.write(index, *layer.self_attn.key_value(rows, rotation))

    def forward(self, embedded: Tensor, context: KvContext) -> Tensor:
        """Block rows `[rows, hidden]` (target embeddings) to hidden states after the final norm.

        `context` must not be causal.
        """
        hidden = embedded
        rotation = Rotation.at(context.positions, self.config, hidden.dtype)
        for index, layer in self.layers.numbered():
            hidden = layer.step(index, hidden, rotation, context)
        normed: Tensor = self.norm(hidden)
        return normed

    def block_tokens(self, anchors: Tensor) -> Tensor:
        """Input tokens `[sequences, block size]`: the anchor, then masks."""
        block = anchors[:, None].expand(-1, self.config.block_size).clone()
        block[:, 1:] = self.config.mask_token_id
        return block

    def drafts(
        self, hidden: Tensor, anchors: Tensor, count: int, head: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The first `count` greedy drafts `[sequences, count]` of each block.

        `hidden` is `[sequences, block size, hidden]`, `anchors` `[sequences]`, `head` the
        target's. The layout says which row drafts first: anchor-drop skips the anchor's.
        """
        first = int(self.config.layout is AnchorLayout.DROP)
        logits = head(hidden[:, first : first + count])
        if self.markov_head is not None and count > 0:
            return self.markov_head.draft(logits, anchors)
        return logits.argmax(-1)


def propose(
    drafter: BlockDrafter,
    target_embed: Callable[[Tensor], Tensor],
    storage: Tensor,
    anchors: Tensor,
    spans: Sequence[Span],
) -> Tensor:
    """Hidden states `[sequences, block size, hidden]` of one block per sequence.

    Each span starts at its anchor's position and has block-size rows; the draft's pool must hold
    the context of every position before it. `anchors` is `[sequences]`.
    """
    tokens = drafter.block_tokens(anchors)
    paged = PagedContext(storage, spans, causal=False)
    hidden: Tensor = drafter(target_embed(tokens.flatten()), paged)
    return hidden.view(*tokens.shape, -1)
