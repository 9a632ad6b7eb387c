"""Bytes per token of one model's cache."""

from dataclasses import replace

import pytest

from server.config.geometry import DTYPE_BYTES, KvGeometry, kv_geometry
from tests.memory.make import make_draft, make_target

QWEN3_8B = KvGeometry(36, 8, 128, 2)


def test_the_geometry_is_read_from_the_configs_own_fields() -> None:
    assert kv_geometry(make_target(), 2) == QWEN3_8B
    assert kv_geometry(make_draft(num_key_value_heads=4), 2) == KvGeometry(5, 4, 128, 2)


def test_head_dim_is_not_hidden_size_over_heads() -> None:
    """Qwen3-4B has 32 heads of 128 at a hidden size of 2560."""
    assert kv_geometry(make_target(hidden_size=2560), 2).bytes_per_token == 147_456


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_layers", 35, 143_360),
        ("num_kv_heads", 4, 73_728),
        ("head_dim", 64, 73_728),
        ("element_bytes", 4, 294_912),
        ("scale_bytes", 4, 149_760),
    ],
)
def test_every_field_moves_the_cost_of_a_token(field: str, value: int, expected: int) -> None:
    assert QWEN3_8B.bytes_per_token == 147_456
    assert replace(QWEN3_8B, **{field: value}).bytes_per_token == expected


def test_the_served_dtypes_have_torchs_sizes() -> None:
    import torch

    assert {name: getattr(torch, name).itemsize for name in DTYPE_BYTES} == dict(DTYPE_BYTES)
