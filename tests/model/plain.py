"""The block drafter's equations written a second time: float64, head by head, no cache, no paging.

Everything is computed from the target features of all positions before the anchor, each time.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from server.config.records import BlockDraft

Weights = Mapping[str, Tensor]


def norm(rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    mean_square = (rows * rows).sum(-1, keepdim=True) / rows.shape[-1]
    return rows / torch.sqrt(mean_square + epsilon) * weight


def rotate(vectors: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotate `[rows, head_dim]` as complex numbers: element i pairs with i + head_dim / 2."""
    half = vectors.shape[-1] // 2
    # The angles are float32 in the trained models, so they are here.
    frequency = 1.0 / theta ** (torch.arange(half, dtype=torch.float32) * 2 / (2 * half))
    angle = positions.float()[:, None] * frequency
    spin = torch.complex(angle.cos().double(), angle.sin().double())
    turned = torch.complex(vectors[:, :half].clone(), vectors[:, half:].clone()) * spin
    return torch.cat((turned.real, turned.imag), -1)


def attention(
    weights: Weights, at: str, draft: BlockDraft, context: Tensor, rows: Tensor
) -> Tensor:
    """Non-causal attention of the block's rows over context rows and block rows."""
    anchor, size = context.shape[0], rows.shape[0]
    everything = torch.cat((context, rows))
    positions = torch.arange(anchor + size)
    group = draft.num_attention_heads // draft.num_key_value_heads
    width, mixed = draft.head_dim, []
    for head in range(draft.num_attention_heads):
        q_rows = slice(head * width, (head + 1) * width)
        kv_rows = slice(head // group * width, (head // group + 1) * width)
        query = rows @ weights[f"{at}.q_proj.weight"][q_rows].T
        key = everything @ weights[f"{at}.k_proj.weight"][kv_rows].T
        value = everything @ weights[f"{at}.v_proj.weight"][kv_rows].T
        query = norm(query, weights[f"{at}.q_norm.weight"], draft.rms_norm_eps)
        key = norm(key, weights[f"{at}.k_norm.weight"], draft.rms_norm_eps)
        query = rotate(query, positions[anchor:], draft.rope_theta)
        key = rotate(key, positions, draft.rope_theta)
        score = query @ key.T / math.sqrt(width)
        share = torch.exp(score - score.amax(-1, keepdim=True))
        mixed.append(share @ value / share.sum(-1, keepdim=True))
    return torch.cat(mixed, -1) @ weights[f"{at}.o_proj.weight"].T


def feed_forward(weights: Weights, at: str, rows: Tensor) -> Tensor:
    gate = rows @ weights[f"{at}.gate_proj.weight"].T
    lifted = gate / (1 + torch.exp(-gate)) * (rows @ weights[f"{at}.up_proj.weight"].T)
    return lifted @ weights[f"{at}.down_proj.weight"].T


def block_hidden(weights: Weights, draft: BlockDraft, features: Tensor, embedded: Tensor) -> Tensor:
    """Hidden rows of one block, from features `[anchor position, width]` and `[block, hidden]`."""
    eps = draft.rms_norm_eps
    context = norm(features @ weights["fc.weight"].T, weights["hidden_norm.weight"], eps)
    rows = embedded
    for index in range(draft.num_hidden_layers):
        at = f"layers.{index}"
        normed = norm(rows, weights[f"{at}.input_layernorm.weight"], eps)
        rows = rows + attention(weights, f"{at}.self_attn", draft, context, normed)
        normed = norm(rows, weights[f"{at}.post_attention_layernorm.weight"], eps)
        rows = rows + feed_forward(weights, f"{at}.mlp", normed)
    return norm(rows, weights["norm.weight"], eps)


def drafts(
    weights: Weights, draft: BlockDraft, hidden: Tensor, head: Tensor, anchor: int
) -> list[int]:
    """All greedy drafts of one block; `head` is `[vocab, hidden]`."""
    rows = hidden[1:] if draft.layout == "anchor-drop" else hidden
    tokens, previous = [], anchor
    for row in rows:
        logits = head @ row
        if draft.markov_rank:
            first = weights["markov_head.markov_w1.weight"][previous]
            logits = logits + weights["markov_head.markov_w2.weight"] @ first
        previous = int(logits.argmax())
        tokens.append(previous)
    return tokens
