"""Starts `python -m server` as an operator would, and tells what the process did."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Sizes for a boot that is not about sizes.
SMALL = ("--max-num-batched-tokens", "32", "--max-num-seqs", "2", "--max-model-len", "128")

# Runs the server under an audit hook and writes down which files were opened and which
# modules were loaded; the server itself is untouched.
_WITNESS = """
import json, runpy, sys
record, opened = sys.argv[1], []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
sys.argv = ["server", *sys.argv[2:]]
try:
    runpy.run_module("server", run_name="__main__", alter_sys=True)
finally:
    with open(record, "w") as out:
        json.dump({"opened": opened, "modules": sorted(sys.modules)}, out)
"""


@dataclass(frozen=True)
class Finished:
    code: int
    stdout: str
    stderr: str

    @property
    def verdict_line(self) -> str:
        return self.stderr.rstrip("\n").rsplit("\n", 1)[-1]

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("error[")]


@dataclass(frozen=True)
class Witnessed(Finished):
    opened: list[str]
    modules: list[str]


def environment(cache: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    ours = ("SERVER_", "HF_", "NOTIFY_", "XDG_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    kept |= {"SERVER_CACHE_DIR": str(cache), "HF_HOME": str(cache / "no-hf"), "NO_COLOR": "1"}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return kept | dict(extra or {})


def run(
    *arguments: str, cache: Path, env: Mapping[str, str] | None = None, timeout: float = 240
) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "server", *arguments],
        env=environment(cache, env),
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def witness(*arguments: str, cache: Path, env: Mapping[str, str] | None = None) -> Witnessed:
    record = cache / "witness.json"
    done = subprocess.run(
        [sys.executable, "-c", _WITNESS, str(record), *arguments],
        env=environment(cache, env),
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    seen = json.loads(record.read_text())
    return Witnessed(done.returncode, done.stdout, done.stderr, seen["opened"], seen["modules"])
