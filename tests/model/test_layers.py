"""Rotary factors far out, and the norm's precision."""

import torch
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    apply_rotary_pos_emb,
)

from server.model.layers import RmsNorm, Rotation
from tests.model.tiny import make_target_config


def test_rotation_agrees_with_transformers_at_far_positions() -> None:
    config = make_target_config(head_dim=128, rope_theta=1e6)
    positions = torch.tensor([0, 1, 4095, 40959])
    heads = torch.randn(4, 2, 128, generator=torch.Generator().manual_seed(0))
    theirs = Qwen3Config(head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    cos, sin = Qwen3RotaryEmbedding(theirs)(heads[None], positions[None])
    by_head = heads.transpose(0, 1)[None]
    expected, _ = apply_rotary_pos_emb(by_head, by_head, cos, sin)
    got = Rotation.at(positions, config, torch.float32).turn(heads)
    torch.testing.assert_close(got, expected[0].transpose(0, 1), rtol=0, atol=1e-6)


def test_norm_of_bfloat16_rows_is_computed_in_float32() -> None:
    ours, theirs = RmsNorm(64, 1e-6), Qwen3RMSNorm(64, 1e-6)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, generator=generator).bfloat16()
    rows = (30 * torch.randn(5, 64, generator=generator)).bfloat16()
    ours.weight.data, theirs.weight.data = weight, weight
    assert torch.equal(ours(rows), theirs(rows))
