"""Settings of every test: a property is tried on the same inputs each time, however slowly.

No run fails on an input that the one before it did not have: to look for those is the fuzzer's.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# What shells and CI services say of colours and of a terminal, and launchers of ranks.
_OF_THE_CALLER = (
    *("FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)


@pytest.fixture(autouse=True, scope="session")
def _environment_of_nobody() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _OF_THE_CALLER:
            patch.delenv(name, raising=False)
        yield
