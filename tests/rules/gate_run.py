"""Examples that are runs of the gate on files: `--check`, in this process, in an empty folder."""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from server import startup
from server.cli import parse
from server.findings import Outcome
from server.log import Log, Refused
from server.render.console import Console
from server.render.style import Style
from server.report import Report
from tests.config.drafts import DSPARK, DSPINE, FLAT, NESTED, Raw
from tests.geometry import QWEN3_8B
from tests.rules.content import Base, Content, Edited

QWEN3_RAW: Mapping[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    **QWEN3_8B,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
EAGLE3_RAW: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    **QWEN3_8B,
    "num_hidden_layers": 1,
    "draft_vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
TARGET_BASE = Base("qwen3", "A target: dense, the sizes of Qwen3-8B", QWEN3_RAW)
DFLASH_BASE = Base("dflash", "A DFlash draft for it, in the nested schema", NESTED)
FLAT_BASE = Base("dflash-flat", "A DFlash draft for it, in the flat schema", FLAT)
DSPARK_BASE = Base("dspark", "A DSpark draft for it, in the flat schema", DSPARK)
DSPINE_BASE = Base("dspine", "A DSpine draft for it, refused as such (SD306)", DSPINE)
EAGLE3_BASE = Base("eagle3", "An EAGLE-3 draft for it, refused as such (SD312)", EAGLE3_RAW)
BASES = (TARGET_BASE, DFLASH_BASE, FLAT_BASE, DSPARK_BASE, DSPINE_BASE, EAGLE3_BASE)
_SAME: Raw = {}
# The whole environment: names are looked up in a cache that is not there.
_ENVIRON = {"HF_HOME": "hf", "SERVER_CACHE_DIR": "samples"}


class Gate(NamedTuple):
    """`python -m server --check` with some arguments, in a folder that holds `files`."""

    files: Mapping[str, Content]
    arguments: str

    @property
    def argv(self) -> list[str]:
        return ["--check", *shlex.split(self.arguments)]

    @property
    def told(self) -> str:
        told = [f"- `{name}`: {content.told}" for name, content in self.files.items()]
        return "\n".join((*told, f"- `python -m server {shlex.join(self.argv)}`"))

    def judge(self, folder: Path) -> Outcome:
        """Write the files and run the gate on them, in this process."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            content.write(folder / name)
        # Relative paths on the command line stay relative in every finding.
        with chdir(folder), patch.dict(os.environ, _ENVIRON, clear=True):
            report = _report(self.argv)
        return Outcome(tuple(report.findings), tuple(report.checks.values()))


def pair(base: Base, draft: Raw = _SAME, target: Raw = _SAME, flags: str = "") -> Gate:
    """A draft, `base` with the edits `draft`, beside a target with the edits `target`."""
    files = {"draft.json": _edited(base, draft), "target.json": _edited(TARGET_BASE, target)}
    return Gate(files, f"--draft draft.json --target target.json {flags}")


def target_alone(edits: Raw = _SAME) -> Gate:
    """A target without a draft."""
    return Gate({"target.json": _edited(TARGET_BASE, edits)}, "--target target.json")


def _report(argv: Sequence[str]) -> Report:
    parsed = parse(argv, os.environ)
    log = Log(Report(settings=dict(parsed.settings)), Console(None, Style()))
    log.tell(parsed.outcome)
    if parsed.options is not None:
        with suppress(Refused):
            startup.boot(parsed.options, log)
    return log.report


def _edited(base: Base, edits: Raw) -> Content:
    return Edited(base, edits) if edits else base
