"""DSpark's low-rank Markov head (type "vanilla"): a bias on the next token from the last one.

Arithmetic as in deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/modeling.py.
"""

import torch
from torch import Tensor, nn

from server.model.layers import SplitRows
from server.model.parallel import ONE_RANK, Group


class MarkovHead(nn.Module):
    """`markov_w1`, `markov_w2`, each `[vocab, rank]`: bias = w2 @ w1[previous token]."""

    def __init__(self, vocab_size: int, rank: int, group: Group = ONE_RANK) -> None:
        """Take both factors; they are not initialised."""
        super().__init__()
        self.markov_w1 = SplitRows(vocab_size, rank, group)
        self.markov_w2 = SplitRows(vocab_size, rank, group)

    def bias(self, previous: Tensor) -> Tensor:
        """`[sequences]` token ids to `[sequences, vocab]`, to be added to the logits."""
        scores: Tensor = self.markov_w2(self.markov_w1.lookup(previous))
        return scores

    def draft(self, logits: Tensor, anchors: Tensor) -> Tensor:
        """Greedy drafts `[sequences, k]` from `logits` `[sequences, k, vocab]`, in order.

        Row 0 follows the anchor `[sequences]`, each later row the token just drafted.
        """
        previous, tokens = anchors, []
        for row in range(logits.shape[1]):
            previous = (logits[:, row] + self.bias(previous)).argmax(-1)
            tokens.append(previous)
        return torch.stack(tokens, dim=1)
