"""Configuration: locating, strict reading, drafter families, pair rules, the rule registry."""

import os

# What is admitted must not depend on a pydantic plugin that happens to be installed; looking for
# one also costs a tenth of a refusal.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
