"""Rules 5xx to 7xx: memory, the machine, flags."""

from tests.rules import examples_runtime_flags, examples_runtime_memory, examples_runtime_outside

EXAMPLES = (
    *examples_runtime_memory.EXAMPLES,
    *examples_runtime_outside.EXAMPLES,
    *examples_runtime_flags.EXAMPLES,
)
