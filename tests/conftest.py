"""Settings of every test, and the boots that several modules look at."""

import gc
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import settings

from tests.process import SMALL, Finished, run

# Property tests have no deadline, since no test is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What was collected stays: no search for garbage, of which a profile makes four, sees it."""
    gc.collect()
    gc.freeze()


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
