"""Ranks of a small pair in processes of their own, each compared with the whole pair.

`python -m tests.model.ranks WORLD FOLDER`: FOLDER holds what `write_pairs` wrote there.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import distributed, nn
from torch.multiprocessing.spawn import start_processes

from server.config.records import BlockDraft, TargetConfig
from server.memory.kv_layout import kv_layout
from server.model.build import build_drafter, build_target, final_tensors, materialise
from server.model.decode import PagedSequence, whole_logits
from server.model.dflash import BlockDrafter
from server.model.parallel import ONE_RANK, Group
from server.model.qwen3 import Qwen3Target
from server.model.speculate import Speculator
from server.weights.layout import draft_layout, target_layout
from server.weights.load import load_weights
from server.weights.parts import Share, part_config, part_plan
from tests.model.tiny import (
    CPU,
    fill_randomly,
    make_draft,
    make_dspark,
    make_pool,
    make_target_config,
    random_tokens,
    scattered,
)
from tests.weights.make import make_plan

# 61 tokens of vocabulary and 37 columns divide over no number of ranks.
PAIRS: dict[str, tuple[TargetConfig, BlockDraft]] = {
    "untied": (make_target_config(intermediate_size=37), make_draft(hidden_size=24)),
    "tied": (make_target_config(tie_word_embeddings=True), make_dspark()),
}
PROMPT, NEW_TOKENS = random_tokens(9), 6
_ALONE = "alone.pt"  # what the whole pair gives


class _Silent:
    def advance(self, size_bytes: int) -> None:
        """Nobody watches."""


def write_pairs(folder: Path) -> None:
    for name, (target, draft) in PAIRS.items():
        built: dict[str, nn.Module] = {
            "target": build_target(target),
            "draft": build_drafter(draft, target.hidden_size),
        }
        for seed, (role, module) in enumerate(built.items()):
            materialise(module, CPU, torch.float32)
            fill_randomly(module, seed)
            (folder / name / role).mkdir(parents=True)
            save_file(final_tensors(module), folder / name / role / "model.safetensors")
        torch.save(list(results(load_pair(folder, name, ONE_RANK))), folder / name / _ALONE)


def load_pair(folder: Path, name: str, group: Group) -> tuple[Qwen3Target, BlockDrafter]:
    """What the rank of `group` has of the pair `name`, through the server's own loader."""
    target, draft = PAIRS[name]
    pair = build_target(target, group), build_drafter(draft, target.hidden_size, group)
    layouts = target_layout(target), draft_layout(draft)
    for module, role, layout in zip(pair, ("target", "draft"), layouts, strict=True):
        plan = make_plan(folder / name / role, layout)
        config = target if role == "target" else draft
        materialise(module, CPU, torch.float64)
        load_weights(part_plan(plan, config, group.share), final_tensors(module), _Silent())
    return pair


def results(pair: tuple[Qwen3Target, BlockDrafter]) -> Iterator[torch.Tensor]:
    """Logits, greedy tokens over the pool, and those of speculative rounds with what they saw."""
    target, drafter = pair
    yield whole_logits(target, PROMPT)
    pool = make_pool(target, drafter)
    table = scattered(pool, 12)
    tokens = PagedSequence(target, pool, table).decode(PROMPT, NEW_TOKENS)
    yield torch.tensor(tokens)
    speculator = Speculator.of(target, drafter, pool)
    made = speculator.run(scattered(pool, 12, seed=3), PROMPT, NEW_TOKENS)
    yield torch.tensor(made.tokens)
    yield torch.tensor(made.accepted)
    yield speculator.block_hidden(scattered(pool, 12, seed=3), [*PROMPT, *made.tokens])


def run_rank(rank: int, world: int, folder: Path) -> None:
    store = distributed.FileStore(str(folder / f"store-{world}"), -1)
    group = Group.open(store, Share(rank, world), CPU)
    whole = torch.arange(2.0 * 61).view(2, 61)
    own = group.share.of(61)
    assert torch.equal(group.gather(whole[:, own.start : own.stop], 61), whole)
    assert torch.equal(
        group.sum(torch.full((3,), rank + 1.0)), torch.full((3,), world * (world + 1) / 2)
    )
    assert group.rows((rank, 2**60)) == [[other, 2**60] for other in range(world)]
    assert group.any(rank == world - 1)
    assert not group.any(False)
    for name, (target, draft) in PAIRS.items():
        parts = load_pair(folder, name, group)
        share = group.share
        layout = kv_layout(part_config(target, share), part_config(draft, share), 8, 4)
        assert make_pool(*parts).target.nbytes == 40 * 4 * layout.target.bytes_per_token
        alone = torch.load(folder / name / _ALONE)
        for mine, right in zip(results(parts), alone, strict=True):
            torch.testing.assert_close(mine, right)


if __name__ == "__main__":
    count = int(sys.argv[1])
    start_processes(run_rank, (count, Path(sys.argv[2])), count, start_method="fork")
