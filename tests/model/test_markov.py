"""The Markov head's sequential drafts on numbers worked out by hand."""

import torch

from server.model.build import final_tensors
from server.model.markov import MarkovHead
from tests.model.tiny import CPU, fill_randomly


def make_head(first: list[float], second: list[float]) -> MarkovHead:
    head = MarkovHead(3, 1)
    tensors = final_tensors(head)
    tensors["markov_w1.weight"].copy_(torch.tensor(first)[:, None])
    tensors["markov_w2.weight"].copy_(torch.tensor(second)[:, None])
    return head


def test_each_row_follows_the_token_just_drafted() -> None:
    # bias after token p: first[p] * second = 0 after 0, [0, 2, -2] after 1, [0, -3, 3] after 2
    head = make_head([0.0, 1.0, -1.5], [0.0, 2.0, -2.0])
    logits = torch.tensor([[[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [5.0, 0.0, 3.0]]])
    logits = logits.expand(3, -1, -1)
    drafts = head.draft(logits, torch.tensor([0, 1, 2], device=CPU))
    assert drafts.tolist() == [[1, 1, 0], [1, 1, 0], [2, 2, 2]]


def test_bias_is_the_product_of_both_factors() -> None:
    head = MarkovHead(11, 4)
    fill_randomly(head, 3)
    first, second = head.markov_w1.weight, head.markov_w2.weight
    expected = torch.stack([second @ first[token] for token in (4, 0)])
    torch.testing.assert_close(head.bias(torch.tensor([4, 0])), expected)
