"""Property tests have no time limit: a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("memory", deadline=None)
settings.load_profile("memory")
