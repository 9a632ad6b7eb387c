"""Commands of the pages that no test runs, by their beginning, each with the reason.

A command that is neither here nor among those that are run fails the tests.
"""

from collections.abc import Mapping

INSTALLS = "installs packages; .ci/run installs from scratch by the README's own commands"
MINUTES = "takes minutes; its own tests run it in small"
GPU = "needs a GPU; the GPU job of .github/workflows/ci.yml runs it"
CHECKOUT = "for a checkout as a whole; .ci/run runs it"

NOT_RUN: Mapping[str, str] = {
    "pip install": INSTALLS,
    "hf download": "downloads a model",
    "torchrun": "starts ranks of one boot each; tests/test_ranks_process.py runs it",
    "curl": "asks a boot that is up; tests/live asks each path",
    ".ci/run": "installs packages and runs all tests, these among them",
    "python -m pytest tests/gpu": GPU,
    "SERVER_GPU_TESTS=any python -m pytest tests/gpu": GPU,
    "SERVER_GPU_REQUIRED=1 python -m pytest tests/gpu": GPU,
    "python -m pytest": CHECKOUT,
    "python -m benchmarks.": MINUTES,
    "python -m tests.": MINUTES,
}
