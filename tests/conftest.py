"""Settings of every test: a property is tried on the same inputs each time, however slowly.

No run fails on an input that the one before it did not have: to look for those is the fuzzer's.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
