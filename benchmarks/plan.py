"""How long `--plan` takes for Qwen3-8B with its DFlash draft, from headers without weights.

    python -m benchmarks.plan [--rounds 7]

Three whole processes, interleaved: one that imports torch, the plan without a predicted peak, and
the plan with one. Prints medians, and exits 1 when the first plan takes more than 0.3 s, or the
second more than 3 s.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import Commands, measure
from tests.pair_8b import write_pair

TORCH, BARE, PREDICTED = "import torch", "plan, no predicted peak", "plan, predicted peak"
LIMITS_S = {BARE: 0.3, PREDICTED: 3.0}


def commands(work: Path) -> Commands:
    """The three processes; the plans read files below `work`."""
    target, draft = write_pair(work)
    plan = [sys.executable, "-m", "server", "--plan", "--assume-gpu", "a100-80g"]
    plan += ["--target", str(target), "--draft", str(draft)]
    return {
        TORCH: ([sys.executable, "-c", "import torch"], 0),
        BARE: ([*plan, "--no-predict"], 0),
        PREDICTED: (plan, 0),
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        medians = measure(commands(Path(folder)), rounds, Path(folder))
    for name, median in medians.items():
        ratio = median / medians[TORCH]
        limit = f"   limit {LIMITS_S[name]} s" if name in LIMITS_S else ""
        print(f"{name:24} {median:6.3f} s   {ratio:5.2f} x import torch{limit}")
    return int(any(medians[name] > limit for name, limit in LIMITS_S.items()))


if __name__ == "__main__":
    sys.exit(main())
