"""Configuration: locating, strict reading, drafter families, pair rules, the rule registry."""
