"""Every example, in the order of the rules' ids."""

from tests.rules import (
    examples_dspine,
    examples_files,
    examples_pair,
    examples_runtime,
    examples_tensors,
    examples_unsupported,
)
from tests.rules.example import Example

_MODULES = (
    examples_files,
    examples_pair,
    examples_unsupported,
    examples_dspine,
    examples_tensors,
    examples_runtime,
)

EXAMPLES: tuple[Example, ...] = tuple(
    sorted(
        (example for module in _MODULES for example in module.EXAMPLES),
        key=lambda example: example.rule,
    )
)
