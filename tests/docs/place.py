"""Runs a page's command as it is written, in a folder of its own.

Of what a page names, these are given: `python` and `draftgate` are this interpreter and this
checkout; the models Qwen3-8B (a folder below /models, and a name in the model cache) and
Qwen3-8B-DFlash-b16 are samples. A boot that holds is ended by SIGTERM once it is ready.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

from server.weights.sample import materialise
from tests.docs.pages import ROOT, Command
from tests.process import Finished, environment

MODELS = {"Qwen3-8B": "sample:qwen3", "Qwen3-8B-DFlash-b16": "sample:dflash"}
_COMMIT = "0" * 40
_SHIM = '#!/bin/sh\nexec {} "$@"\n'


class Place(NamedTuple):
    """An empty home with the models that the pages name, and what was run in it."""

    folder: Path
    done: dict[str, Finished]

    @classmethod
    def make(cls, folder: Path) -> "Place":
        for name, sample in MODELS.items():
            copytree(materialise(sample, folder / "draftgate"), folder / "models" / name)
        cached = folder / "home/.cache/huggingface/hub/models--Qwen--Qwen3-8B"
        copytree(folder / "models/Qwen3-8B", cached / "snapshots" / _COMMIT)
        (cached / "refs").mkdir()
        (cached / "refs/main").write_text(_COMMIT)
        (folder / "bin").mkdir()
        for name, module in (("python", ""), ("draftgate", " -m server")):
            shim = folder / "bin" / name
            shim.write_text(_SHIM.format(sys.executable + module))
            shim.chmod(0o755)
        return cls(folder, {})

    def run(self, command: Command) -> Finished:
        """What a run of the command did; of commands that are alike the first is run."""
        if command.text not in self.done:
            self.done[command.text] = self._run(command.text)
        return self.done[command.text]

    def _run(self, text: str) -> Finished:
        """The text through a shell; SIGTERM follows the line that says that it is ready."""
        text = text.replace("/models", str(self.folder / "models"))
        told: list[str] = []
        printed = self.folder / "printed"
        with (
            printed.open("w") as out,
            subprocess.Popen(
                ["/bin/sh", "-c", f"exec env {text}"],
                env=self._environment(),
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    told.append(line)
                    if line.startswith("ready: "):
                        process.send_signal(signal.SIGTERM)
            finally:
                if process.poll() is None:
                    process.terminate()
        return Finished(process.returncode, printed.read_text(), "".join(told))

    def _environment(self) -> dict[str, str]:
        env = environment(self.folder / "draftgate")
        del env["HF_HOME"]
        home = {"HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}
        return env | home | {"PATH": f"{self.folder / 'bin'}{os.pathsep}{env['PATH']}"}
