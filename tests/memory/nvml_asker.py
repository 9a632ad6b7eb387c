"""Answers one question a line: which device is found where NVML says what a script tells it.

Runs in a process of its own, because pynvml loads the library once. Nothing in it is replaced.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from server.memory.facts import Machine, find_device


def main() -> None:
    root = Path(sys.argv[1])
    for line in sys.stdin:
        case = json.loads(line)
        Path(os.environ["NVML_SCRIPT"]).write_bytes(case["script"].encode("latin-1"))
        machine = Machine(root, root, root / "dev", nvml_limit_s=case["limit_s"])
        facts, outcome = find_device(case["device"], case["environ"], machine)
        told = {
            "facts": None if facts is None else asdict(facts),
            "remarks": [] if facts is None else facts.remarks,
            "found": [(finding.rule, finding.message) for finding in outcome.findings],
        }
        print(json.dumps(told), flush=True)  # noqa: T201  (the answer)


main()
