"""Settings of every test, and the boots that several modules look at.

A property is tried on the same inputs each time, however slowly: no run fails on an input that the
one before it did not have. To look for those is the fuzzer's.
"""

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from tests.process import SMALL, Finished, run

# As a boot does before it imports torch: threads that spin while they wait take minutes where two
# of them have to share a core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# What shells and CI services say of colours and of a terminal, and launchers of ranks.
_OF_THE_CALLER = (
    *("FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)


def pytest_collection_finish() -> None:
    """What was collected stays: no search for garbage, of which a profile makes four, sees it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _environment_of_nobody() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _OF_THE_CALLER:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def small_boot(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | None], Finished]:
    """A small whole boot of the sample target with a draft, as JSON; each is run once."""
    folder = tmp_path_factory.mktemp("small-boot")

    @cache
    def booted(draft: str | None) -> Finished:
        asked = ("--draft", draft) if draft else ()
        return run(
            "--target", "sample:qwen3", "--device", "cpu", *asked, *SMALL,
            "--exit-after-boot", "--output-format", "json", cache=folder,
        )  # fmt: skip

    return booted
