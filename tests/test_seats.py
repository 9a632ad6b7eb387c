"""Which rank a process is, by its environment."""

import pytest

from server.seats import ALONE, Seat, read_seat

TORCHRUN = {
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
}


def test_alone_and_as_the_launcher() -> None:
    assert read_seat({}, 1) == ALONE
    launcher = read_seat({"WORLD_SIZE": "8"}, 2)  # which is not all that torchrun sets
    assert launcher == Seat(world=2, sharers=2)
    assert (ALONE.launches, launcher.launches, launcher.speaks) == (False, True, True)


def test_a_rank_of_torchrun_has_the_device_of_its_number_on_the_host() -> None:
    seat = read_seat(TORCHRUN, 8)
    assert seat == Seat(5, 8, 1, 4, started=True, external=True)
    assert (seat.launches, seat.speaks) == (False, False)
    assert [seat.device(asked) for asked in ("auto", "cuda", "cpu")] == ["auto:1", "cuda:1", "cpu"]
    assert ALONE.device("cuda:3") == "cuda:3"


def test_one_process_of_torchrun_is_alone() -> None:
    assert read_seat({**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}, 1) is ALONE


@pytest.mark.parametrize(
    ("changes", "ranks", "told"),
    [
        ({}, 4, "WORLD_SIZE is 8, --tensor-parallel-size is 4"),
        ({"RANK": "8"}, 8, "RANK is 8 of 8"),
        ({"LOCAL_RANK": "4"}, 8, "LOCAL_RANK is 4 of 4"),
        ({"LOCAL_WORLD_SIZE": "9"}, 8, "LOCAL_RANK is 1 of 9"),
        ({"RANK": "-1"}, 8, "RANK is '-1', a number is needed"),
        ({"MASTER_PORT": "65536"}, 8, "MASTER_PORT is 65536, not from 1 to 65535"),
        ({"MASTER_PORT": "tcp"}, 8, "MASTER_PORT is 'tcp', a number is needed"),
        ({"WORLD_SIZE": "x"}, 8, "WORLD_SIZE is 'x', a number is needed"),
    ],
)
def test_an_environment_that_contradicts_itself_is_told(
    changes: dict[str, str], ranks: int, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        read_seat({**TORCHRUN, **changes}, ranks)
