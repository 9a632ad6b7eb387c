"""Faults of the files: configs, weights, names and links."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.config.drafts import NESTED
from tests.faults.fault import Fault
from tests.faults.place import Place
from tests.fuzz.test_odd_inputs import ODD

_INDEX = "model.safetensors.index.json"
_FIRST = "model-00001-of-00003.safetensors"
_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3957900840\n"
Prepare = Callable[[Place], None]


def odd(role: str, name: str) -> Prepare:
    """A config.json that no program writes by accident."""

    def prepare(place: Place) -> None:
        config = place.root / role / "config.json"
        config.unlink()
        ODD[name][0](config)

    return prepare


def config(role: str, **values: Any) -> Prepare:  # noqa: ANN401
    """Other values in a config; None takes a key away, a dotted key goes one level down."""

    def prepare(place: Place) -> None:
        path = place.root / role / "config.json"
        raw = json.loads(path.read_text())
        for key, value in values.items():
            raw[key] = value
        path.write_text(json.dumps({k: v for k, v in raw.items() if v is not None}))

    return prepare


def weights(role: str, name: str, change: Callable[[Path], None]) -> Prepare:
    """One file of a checkpoint changed."""
    return lambda place: change(place.root / role / name)


def content(data: bytes) -> Callable[[Path], None]:
    """A file that holds something else."""
    return lambda path: (path.write_bytes(data), None)[1]


def link(to: str) -> Callable[[Path], None]:
    """A link in place of the file."""

    def change(path: Path) -> None:
        path.unlink()
        path.symlink_to(to)

    return change


def shorter(path: Path) -> None:
    """A file without its last byte."""
    os.truncate(path, path.stat().st_size - 1)


def fifo(path: Path) -> None:
    """A FIFO in place of the file: opening it would wait for ever."""
    path.unlink()
    os.mkfifo(path)


def _nan(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"\xc0\x7f")


def _index(file: str) -> Prepare:
    def prepare(place: Place) -> None:
        path = place.target / _INDEX
        raw = json.loads(path.read_text())
        name = next(iter(raw["weight_map"]))
        raw["weight_map"][name] = file
        path.write_text(json.dumps(raw))

    return prepare


def _pickle(place: Place) -> None:
    (place.draft / "model.safetensors").unlink()
    (place.draft / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")


def _missing(role: str, name: str) -> Prepare:
    return lambda place: place.use(f"--{role}", str(place.root / name))


def _same(place: Place) -> None:
    place.use("--draft", str(place.target))


def _swapped(place: Place) -> None:
    place.use("--draft", str(place.target))
    place.use("--target", str(place.draft))


def _renamed(place: Place) -> None:
    name = "two\nlines \x1b[2J\x07 and \u202eright to left"
    shutil.move(place.draft, place.root / name)
    (place.root / name / "config.json").write_text("{")
    place.use("--draft", str(place.root / name))


def _not_utf8(place: Place) -> None:
    name = os.fsdecode(b"draft-\xff\xfe")
    shutil.move(place.draft, place.root / name)
    (place.root / name / "config.json").write_text("{")
    place.use("--draft", str(place.root / name))


def _looping_folder(place: Place) -> None:
    shutil.rmtree(place.draft)
    place.draft.symlink_to("draft")


def _long_name(place: Place) -> None:
    place.use("--draft", str(place.root / ("d" * 5000)))


def _dspine(place: Place) -> None:
    raw = {**NESTED, "architectures": ["DSpineDraftModel"]}
    (place.draft / "config.json").write_text(json.dumps(raw))


def _dspine_and_no_target(place: Place) -> None:
    _dspine(place)
    place.use("--target", "nowhere")


FILES = (
    Fault("the draft is not there", _missing("draft", "gone"), 66, "error[SD101]"),
    Fault("the target is not there", _missing("target", "gone"), 66, "error[SD101]"),
    Fault("a name of 5,000 letters", _long_name, 66, "error[SD101]"),
    Fault("a folder that is a link to itself", _looping_folder, 66, "error[SD10"),
    Fault("a folder name with escapes and a line end", _renamed, 65,
          "two\\nlines \\u001b[2J\\u0007 and \\u202eright"),
    Fault("a folder name that is not UTF-8", _not_utf8, 65, "draft-\\udcff\\udcfe"),
    Fault("a draft that is the target", _same, 78, "error[SD312]"),
    Fault("draft and target swapped", _swapped, 78, "error[SD312]"),
    Fault("a DSpine draft", _dspine, 78, "error[SD306]"),
    Fault("a DSpine draft and no target", _dspine_and_no_target, 78, "error[SD306]"),
    Fault("draft config: 10,000 lists in each other",
          odd("draft", "10,000 lists in each other"), 65, "error[SD103]"),
    Fault("target config: 10,000 lists in each other",
          odd("target", "10,000 lists in each other"), 65, "error[SD103]"),
    Fault("draft config: 100 MB of JSON", odd("draft", "100 MB of JSON"), 65, "error[SD103]"),
    Fault("draft config: an empty file", odd("draft", "an empty file"), 65, "error[SD103]"),
    Fault("draft config: UTF-16", odd("draft", "UTF-16"), 65, "error[SD103]"),
    Fault("draft config: infinity", odd("draft", "infinity"), 78, "error[SD106]"),
    Fault("draft config: a FIFO", odd("draft", "a FIFO"), 66, "error[SD102]"),
    Fault("draft config: an endless device", odd("draft", "an endless device"), 66, "[SD102]"),
    Fault("draft config: a directory", odd("draft", "a directory"), 66, "error[SD102]"),
    Fault("draft config: a link to itself", odd("draft", "a link to itself"), 66, "[SD102]"),
    Fault("draft config: escapes in a value",
          config("draft", model_type="\x1b]0;owned\x07\n::error::"), 78,
          "\\u001b]0;owned\\u0007\\n::error::"),
    Fault("draft config: a number as text", config("draft", block_size="8"), 78, "block_size"),
    Fault("draft config: another hidden size", config("draft", hidden_size=1024), 78,
          "hidden_size"),
    Fault("draft config: no block size", config("draft", block_size=None), 78, "block_size"),
    Fault("target config: another architecture",
          config("target", architectures=["MambaForCausalLM"]), 78, "MambaForCausalLM"),
    Fault("draft weights: one byte short",
          weights("draft", "model.safetensors", shorter), 65, "error[SD408]"),
    Fault("draft weights: an LFS pointer",
          weights("draft", "model.safetensors", content(_LFS)), 65, "error[SD407]"),
    Fault("draft weights: an empty file",
          weights("draft", "model.safetensors", content(b"")), 65, "error[SD408]"),
    Fault("draft weights: a pickle", _pickle, 78, "error[SD412]"),
    Fault("draft weights: a FIFO", weights("draft", "model.safetensors", fifo), 66, "[SD414]"),
    Fault("draft weights: a value that is no number",
          weights("draft", "model.safetensors", _nan), 65, "error[SD418]"),
    Fault("target weights: a shard is gone", weights("target", _FIRST, os.unlink), 66, "[SD406]"),
    Fault("target weights: a link to itself",
          weights("target", _FIRST, link(_FIRST)), 66, "error[SD414]"),
    Fault("target weights: a dangling link",
          weights("target", _FIRST, link("../blobs/0")), 66, "error[SD406]"),
    Fault("target index: a path outside", _index("../draft/model.safetensors"), 65, "[SD413]"),
    Fault("target index: an absolute path", _index("/etc/passwd"), 65, "error[SD413]"),
    Fault("target index: a file name with escapes", _index("a\n\x1b[2J.safetensors"), 66,
          "a\\x0a\\x1b[2J"),
    Fault("target index: not JSON", weights("target", _INDEX, content(b"{")), 65, "[SD409]"),
)  # fmt: skip
