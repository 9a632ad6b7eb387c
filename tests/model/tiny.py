"""Small random models, pools and block tables for the tests of server/model."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from server.config.geometry import kv_geometry
from server.config.records import AnchorLayout, BlockDraft, TargetConfig
from server.model.attention import WholeContext
from server.model.build import build_drafter, build_target, final_tensors, materialise
from server.model.decode import as_tokens, whole_logits
from server.model.dflash import BlockDrafter
from server.model.kv import BlockTable, KvPool, PoolShape
from server.model.qwen3 import Qwen3Target, TargetStep
from server.weights.parts import part_config

CPU = torch.device("cpu")
BLOCK_TOKENS = 4


def make_target_config(**changes: object) -> TargetConfig:
    fields: dict[str, object] = {
        "architecture": "Qwen3ForCausalLM",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 10,
        "vocab_size": 61,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
    }
    return TargetConfig.model_validate(fields | changes)


def make_draft(**changes: object) -> BlockDraft:
    fields: dict[str, object] = {
        "family": "dflash",
        "schema_id": "nested",
        "hidden_size": 24,
        "intermediate_size": 36,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 10,
        "vocab_size": 61,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "block_size": 5,
        "mask_token_id": 60,
        "target_layer_ids": (0, 2, 3),
        "num_target_layers": 4,
        "layout": AnchorLayout.DROP,
    }
    return BlockDraft.model_validate(fields | changes)


def make_dspark(**changes: object) -> BlockDraft:
    fields: dict[str, object] = {
        "family": "dspark",
        "schema_id": "flat",
        "layout": AnchorLayout.FIRST,
        "target_layer_ids": (-1, 1, 2),
        "markov_rank": 6,
        "markov_head_type": "vanilla",
    }
    return make_draft(**(fields | changes))


def fill_randomly(module: nn.Module, seed: int) -> None:
    """Norm weights around 1, the rest wide enough that attention and logits are far from flat."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in final_tensors(module).items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        tensor.copy_(1 + 0.3 * noise if "norm" in name else 0.4 * noise)


def make_target(config: TargetConfig, dtype: torch.dtype, seed: int = 1) -> Qwen3Target:
    target = build_target(config)
    materialise(target, CPU, dtype)
    fill_randomly(target, seed)
    return target


def make_drafter(
    draft: BlockDraft, dtype: torch.dtype, seed: int = 2, target_hidden: int = 24
) -> BlockDrafter:
    drafter = build_drafter(draft, target_hidden)
    materialise(drafter, CPU, dtype)
    fill_randomly(drafter, seed)
    return drafter


def make_pool(
    target: Qwen3Target,
    drafter: BlockDrafter | None = None,
    num_blocks: int = 40,
    stored: tuple[str, str] | None = None,
) -> KvPool:
    """A pool that holds NaN everywhere: whatever is read before it is written shows.

    `stored`: the types that target and draft are kept in, where they are not the target's.
    """
    size = target.dtype.itemsize
    share = target.group.share
    kept = kv_geometry(part_config(target.config, share), size)
    draft = None if drafter is None else kv_geometry(part_config(drafter.config, share), size)
    if stored is not None:
        kept, draft = kept.stored(stored[0]), draft.stored(stored[1]) if draft else None
    shape = PoolShape(kept, draft, num_blocks, BLOCK_TOKENS)
    pool = KvPool.allocate(shape, target.dtype, CPU)
    for storage in (pool.target, pool.draft):
        if storage is not None:
            storage.fill_(float("nan"))
    return pool


def scattered(pool: KvPool, blocks: int, seed: int = 0) -> BlockTable:
    """A table of `blocks` distinct usable blocks, out of order."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(pool.shape.num_blocks - 1, generator=generator)[:blocks] + 1
    return pool.table(ids.tolist())


def random_tokens(count: int, vocab_size: int = 61, seed: int = 5) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (count,), generator=generator).tolist()


def run_whole(
    target: Qwen3Target, tokens: Sequence[int], capture: Sequence[int] = ()
) -> TargetStep:
    """A forward without any pool."""
    step: TargetStep = target(as_tokens(tokens, CPU), WholeContext(len(tokens), CPU), capture)
    return step


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.double() for name, tensor in final_tensors(module).items()}


def decode_whole(target: Qwen3Target, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """Greedy tokens, each from a full forward over the whole prefix: the reference path."""
    tokens = list(prompt)
    for _ in range(new_tokens):
        tokens.append(int(whole_logits(target, tokens).argmax()))
    return tokens[len(prompt) :]
