"""The target against transformers' Qwen3ForCausalLM, with and without a pool."""

import pytest
import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from server.model.attention import PagedContext
from server.model.build import final_tensors
from server.model.decode import as_tokens
from server.model.kv import Span
from server.model.qwen3 import Qwen3Target
from tests.model.tiny import (
    CPU,
    make_pool,
    make_target,
    make_target_config,
    random_tokens,
    run_whole,
    scattered,
)

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-4}  # the reference norms in float32 always

# Fields of the record that no forward reads.
NOT_THEIRS = {"model_types", "eos_token_id", "bos_token_id"}


def make_reference(target: Qwen3Target) -> Qwen3ForCausalLM:
    own = target.config
    shared = own.model_dump(exclude={"architecture", "dtype", "rope_theta", *NOT_THEIRS})
    config = Qwen3Config(
        **shared, rope_parameters={"rope_type": "default", "rope_theta": own.rope_theta}
    )
    reference = Qwen3ForCausalLM(config).to(target.dtype).eval()
    missing, unexpected = reference.load_state_dict(final_tensors(target), strict=False)
    assert not unexpected
    assert missing == (["lm_head.weight"] if own.tie_word_embeddings else [])
    reference.tie_weights()
    return reference


@torch.inference_mode()
def reference_logits(target: Qwen3Target, tokens: list[int]) -> Tensor:
    logits: Tensor = make_reference(target)(as_tokens(tokens, CPU)[None]).logits[0]
    return logits


@torch.inference_mode()
def paged_logits(target: Qwen3Target, tokens: list[int], chunk: int) -> Tensor:
    """Logits of every row, prefilled `chunk` rows at a time over a table out of order."""
    pool = make_pool(target)
    table = scattered(pool, 20)
    parts = []
    for start in range(0, len(tokens), chunk):
        rows = tokens[start : start + chunk]
        context = PagedContext(pool.target, [Span(start, len(rows), table)])
        parts.append(target.logits(target(as_tokens(rows, CPU), context).hidden))
    return torch.cat(parts)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_agree_with_transformers(tied: bool, dtype: torch.dtype) -> None:
    target = make_target(make_target_config(tie_word_embeddings=tied), dtype)
    tokens = random_tokens(37)
    expected = reference_logits(target, tokens)
    got = target.logits(run_whole(target, tokens).hidden)
    assert expected.std() > 0.5
    torch.testing.assert_close(got, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("chunk", [37, 16, 5, 1])
@pytest.mark.parametrize("tied", [True, False])
def test_paged_logits_agree_with_transformers(chunk: int, tied: bool) -> None:
    target = make_target(make_target_config(tie_word_embeddings=tied), torch.float32)
    tokens = random_tokens(37)
    expected = reference_logits(target, tokens)
    torch.testing.assert_close(paged_logits(target, tokens, chunk), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("heads", [(4, 4), (4, 1), (6, 3)])
def test_head_groupings_agree_with_transformers(heads: tuple[int, int]) -> None:
    config = make_target_config(num_attention_heads=heads[0], num_key_value_heads=heads[1])
    target = make_target(config, torch.float32)
    tokens = random_tokens(19)
    expected = reference_logits(target, tokens)
    torch.testing.assert_close(paged_logits(target, tokens, 7), expected, rtol=0, atol=2e-4)


def test_sequences_of_one_step_do_not_see_each_other() -> None:
    target = make_target(make_target_config(), torch.float64)
    pool = make_pool(target)
    long, short = random_tokens(18), random_tokens(7, seed=6)
    ids = scattered(pool, 12).ids.tolist()
    tables = pool.table(ids[:6]), pool.table(ids[6:])
    for tokens, table in zip((long, short), tables, strict=True):
        first = as_tokens(tokens[:3], CPU)
        target(first, PagedContext(pool.target, [Span(0, 3, table)]))
    spans = [Span(3, 15, tables[0]), Span(3, 4, tables[1])]
    step = target(as_tokens(long[3:] + short[3:], CPU), PagedContext(pool.target, spans))
    torch.testing.assert_close(step.hidden[:15], run_whole(target, long).hidden[3:])
    torch.testing.assert_close(step.hidden[15:], run_whole(target, short).hidden[3:])


def test_features_are_raw_layer_outputs() -> None:
    target = make_target(make_target_config(), torch.float64)
    tokens = random_tokens(9)
    outputs: list[Tensor] = []
    reference = make_reference(target)
    for layer in reference.model.layers:
        layer.register_forward_hook(lambda _m, _i, out: outputs.append(out))
    with torch.inference_mode():
        hidden = reference(as_tokens(tokens, CPU)[None], output_hidden_states=True).hidden_states
    captured = run_whole(target, tokens, (2, -1, 3)).features
    torch.testing.assert_close(captured[:, :24], hidden[3][0], rtol=0, atol=1e-4)
    torch.testing.assert_close(captured[:, 24:48], hidden[0][0], rtol=0, atol=1e-4)
    torch.testing.assert_close(captured[:, 48:], outputs[3][0], rtol=0, atol=1e-4)
    assert (outputs[3][0] - hidden[4][0]).abs().max() > 0.1  # transformers norms the last one


def test_nothing_is_captured_unless_asked() -> None:
    target = make_target(make_target_config(), torch.float32)
    assert run_whole(target, random_tokens(4)).features.shape == (4, 0)


def test_low_precision_stays_near_the_float32_logits() -> None:
    config = make_target_config()
    exact, rounded = make_target(config, torch.float32), make_target(config, torch.bfloat16)
    tokens = random_tokens(12)
    expected = exact.logits(run_whole(exact, tokens).hidden)
    got = rounded.logits(run_whole(rounded, tokens).hidden)
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(
        got.float(), expected, rtol=0, atol=0.1 * float(expected.abs().max())
    )
