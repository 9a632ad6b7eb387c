"""The Qwen3 dense target: one forward that a prefill, a decode and a verify step share."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from server.config.records import TargetConfig
from server.model.layers import DecoderLayers, KvContext, RmsNorm, Rotation, SplitRows
from server.model.parallel import Group

# The id that stands for the embedding's output among captured layers
# (deepseek-ai/DeepSpec deepspec/modeling/dspark/common.py).
EMBEDDING_OUTPUT = -1


@dataclass(frozen=True, slots=True)
class TargetStep:
    """What a target step made.

    `hidden`: `[rows, hidden]` after the final norm, ready for `Qwen3Target.logits`.
    `features`: `[rows, len(capture) * hidden]`, raw layer outputs side by side in the order
    asked for; no columns when none were.
    """

    hidden: Tensor
    features: Tensor


class _Features:
    """Collects the captured layers in one tensor, so that no second copy is ever held."""

    def __init__(self, capture: Sequence[int], embedded: Tensor) -> None:
        self._columns = {layer: column for column, layer in enumerate(capture)}
        self._width = embedded.shape[1]
        self.values = embedded.new_empty(embedded.shape[0], len(capture) * self._width)
        self.take(EMBEDDING_OUTPUT, embedded)

    def take(self, layer: int, hidden: Tensor) -> None:
        """Keep the output of `layer` if it was asked for."""
        if layer in self._columns:
            first = self._columns[layer] * self._width
            self.values[:, first : first + self._width] = hidden


class DecoderStack(nn.Module):
    """Embedding, layers and final norm: what the checkpoint names `model.*`."""

    def __init__(self, config: TargetConfig, group: Group) -> None:
        """Take the weights; they are not initialised."""
        super().__init__()
        self.embed_tokens = SplitRows(config.vocab_size, config.hidden_size, group)
        self.layers = DecoderLayers(config, group)
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)


class Qwen3Target(nn.Module):
    """A Qwen3 target. Parameter names equal the checkpoint's; tied: there is no `lm_head`."""

    def __init__(self, config: TargetConfig, group: Group) -> None:
        """Take the weights on the current default device; they are not initialised."""
        super().__init__()
        self.config, self.group = config, group
        self.model = DecoderStack(config, group)
        self.lm_head: SplitRows | None = None
        if not config.tie_word_embeddings:
            self.lm_head = SplitRows(config.vocab_size, config.hidden_size, group)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, and so of the arithmetic."""
        return self.model.embed_tokens.weight.dtype

    def embed(self, tokens: Tensor) -> Tensor:
        """The input embedding of `tokens` `[...]`: `[..., hidden]`."""
        return self.model.embed_tokens.lookup(tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        """`[..., hidden]` (after a final norm, the target's or the draft's) to `[..., vocab]`."""
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        scores: Tensor = head(hidden)
        return scores

    def forward(
        self, tokens: Tensor, context: KvContext, capture: Sequence[int] = ()
    ) -> TargetStep:
        """Run `tokens` `[rows]` at the context's positions, capturing the layers in `capture`.

        Layer id k means the output of decoder layer k before any further norm, -1 the
        embedding's output.
        """
        hidden = self.embed(tokens)
        rotation = Rotation.at(context.positions, self.config, hidden.dtype)
        features = _Features(capture, hidden)
        for index, layer in self.model.layers.numbered():
            hidden = layer.step(index, hidden, rotation, context)
            features.take(index, hidden)
        return TargetStep(self.model.norm(hidden), features.values)
