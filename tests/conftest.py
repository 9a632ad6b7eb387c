"""Settings of every test: property tests have no deadline, since no test is timed."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
