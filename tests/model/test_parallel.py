"""Ranks that compute together give what one rank gives."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from server.model.layers import SplitRows
from server.model.parallel import ONE_RANK, Group
from server.weights.parts import Share
from tests.model.ranks import write_pairs
from tests.process import environment


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder)
    return folder


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_give_the_logits_and_tokens_of_one(pairs: Path, world: int) -> None:
    # 4 ranks keep each of 2 KV heads twice.
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.ranks", str(world), str(pairs)],
        env=environment(pairs, {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_one_rank_is_the_identity() -> None:
    values = torch.ones(2, 3)
    assert ONE_RANK.sum(values) is values
    assert ONE_RANK.gather(values, 3) is values
    assert ONE_RANK.rows((5, 6)) == [[5, 6]]
    assert [ONE_RANK.any(flag) for flag in (True, False)] == [True, False]


def test_a_table_that_is_split_finds_its_own_rows_and_leaves_the_others_zero() -> None:
    class Mine(Group):
        """The part of one rank before the ranks are summed."""

        def sum(self, values: torch.Tensor) -> torch.Tensor:
            return values

    table = SplitRows(5, 1, Mine(Share(1, 2)))
    table.weight.copy_(torch.tensor([[2.0], [3.0], [4.0]]))
    assert table.lookup(torch.tensor([0, 1, 2, 4])).flatten().tolist() == [0, 0, 2, 4]
