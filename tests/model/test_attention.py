"""Attention of one sequence against the textbook formula, and what it keeps in memory."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from server.model.attention import MASKED_ROWS, attend


def make_rows(rows: int, heads: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, heads, 8, generator=generator, dtype=torch.float64)


def textbook(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    group = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", query, keys) / math.sqrt(query.shape[2])
    if causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool)
        scores = scores.masked_fill(hidden.triu(key.shape[0] - query.shape[0] + 1), -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("rows", "context"), [(1, 1), (1, 9), (9, 9), (4, 9), (MASKED_ROWS + 3, MASKED_ROWS + 70)]
)
def test_attention_is_the_textbook_formula(rows: int, context: int, causal: bool) -> None:
    query, key, value = make_rows(rows, 6, 1), make_rows(context, 2, 2), make_rows(context, 2, 3)
    expected = textbook(query, key, value, causal)
    torch.testing.assert_close(attend(query, key, value, causal), expected)


@pytest.mark.parametrize(
    ("rows", "context", "masks"),
    [
        (2000, 2000, [None]),
        (1, 2000, [None]),
        (1024, 2000, [(512, 1488), (512, 2000)]),
        (1025, 2000, [(512, 1487), (512, 1999), (1, 2000)]),
    ],
)
def test_masks_stay_narrow(
    rows: int, context: int, masks: list[tuple[int, int] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        seen.append(None if attn_mask is None else tuple(attn_mask.shape))
        return scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, is_causal=is_causal
        )

    monkeypatch.setattr("server.model.attention.scaled_dot_product_attention", spy)
    attend(make_rows(rows, 2, 1), make_rows(context, 1, 2), make_rows(context, 1, 3), True)
    assert seen == masks
