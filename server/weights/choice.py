"""Choosing the files of a checkpoint: one model.safetensors, or an index and its shards.

Pickle files are never opened. Names in the index must be plain names of the same folder; the
folder's entries may be links, as they are in a Hugging Face cache.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from server.config.json_faults import FaultKind
from server.config.strict_json import load_object
from server.config.values import pointer, shorten
from server.findings import JsonValue
from server.limits import pass_on_limit
from server.weights.files import WeightFault, name_list, shown

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"

_INDEX_LIMIT_BYTES = 16 * 2**20
_FAULTS_SHOWN = 10
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt")
_INDEX_FAULTS = {FaultKind.NOT_FOUND: "SD406", FaultKind.UNREADABLE: "SD414"}


@dataclass(frozen=True, slots=True)
class Choice:
    """The files to read. `weight_map` (tensor to file name) is None without an index.

    `faults` of the index leave the shards and tensors that it gives in order; `lost` are the
    other tensors.
    """

    shards: tuple[str, ...]
    weight_map: Mapping[str, str] | None = None
    faults: tuple[WeightFault, ...] = ()
    lost: frozenset[str] = frozenset()


def list_folder(folder: Path) -> frozenset[str]:
    """The names in `folder`. Raises WeightFault SD405 when it is no folder, SD414 when shut."""
    try:
        return frozenset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise WeightFault("SD405", "is not a folder, so it holds no weights") from None
    except OSError as error:
        pass_on_limit(error)
        raise WeightFault("SD414", f"cannot be listed: {error.strerror}") from None


def choose(folder: Path, names: frozenset[str]) -> Choice:
    """Pick the files of the checkpoint among `names`.

    Raises WeightFault: SD405 no weights, SD411 two sets of weights, SD412 pickle only.
    """
    if INDEX_NAME in names:
        choice = _read_index(folder / INDEX_NAME)
        if SINGLE_NAME in names and not choice.faults and SINGLE_NAME not in choice.shards:
            shards = f"{INDEX_NAME} with {len(choice.shards)} shards"
            raise WeightFault("SD411", f"holds both {SINGLE_NAME} and {shards}")
        return choice
    if SINGLE_NAME in names:
        return Choice((SINGLE_NAME,))
    raise _nothing(names)


def _nothing(names: frozenset[str]) -> WeightFault:
    others = sorted(name for name in names if name.endswith(".safetensors"))
    pickles = sorted(n for n in names if n.endswith(_PICKLES) and n not in _NOT_WEIGHTS)
    neither = f"holds neither {SINGLE_NAME} nor {INDEX_NAME}"
    if others:
        fix = f"fetch {INDEX_NAME} too; a file that holds all weights is named {SINGLE_NAME}"
        return WeightFault("SD405", f"{neither}, but {name_list(others)}", fix=fix)
    if pickles:
        return WeightFault("SD412", f"holds only pickle weights: {name_list(pickles)}")
    if gguf := sorted(name for name in names if name.endswith(".gguf")):
        fix = "fetch the revision of this model that has safetensors files"
        return WeightFault("SD405", f"{neither}, but GGUF files: {name_list(gguf)}", fix=fix)
    return WeightFault("SD405", f"{neither}, nor any other weights")


def _read_index(path: Path) -> Choice:
    raw, faults = load_object(path, _INDEX_LIMIT_BYTES)
    found = [
        WeightFault(_INDEX_FAULTS.get(fault.kind, "SD409"), fault.message, fault.pointer)
        for fault in faults
    ]
    if raw is None:
        return Choice((), faults=tuple(found))
    weight_map = raw.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        what = "is missing" if weight_map is None else f"is {shorten(weight_map)}"
        message = f"weight_map {what}, an object of tensor names and file names is needed"
        return Choice((), faults=(*found, WeightFault("SD409", message, "/weight_map")))
    files: dict[str, str] = {}
    lost: dict[str, JsonValue] = {}
    good: dict[str, str] = {}  # the one text of each file name that all tensors share
    for tensor, file in weight_map.items():
        if isinstance(file, str) and (file in good or _name_reason(file) is None):
            files[tensor] = good.setdefault(file, file)
        else:
            lost[tensor] = file
    found += _name_faults(lost)
    return Choice(tuple(sorted(good)), files, tuple(found), frozenset(lost))


def _name_faults(lost: Mapping[str, JsonValue]) -> Iterator[WeightFault]:
    """One fault per distinct bad file name, ten at most and a count."""
    seen: dict[str, WeightFault] = {}
    for tensor, file in lost.items():
        given = shorten(file)
        if given not in seen and (reason := _name_reason(file)):
            rule, why = reason
            message = f"gives {given} as the file of {shown(tensor)}: {why}"
            seen[given] = WeightFault(rule, message, pointer("weight_map", tensor))
    faults = list(seen.values())
    yield from faults[:_FAULTS_SHOWN]
    if len(faults) > _FAULTS_SHOWN:
        more = len(faults) - _FAULTS_SHOWN
        yield WeightFault(faults[-1].rule, f"gives {more} more such file names")


def _name_reason(file: JsonValue) -> tuple[str, str] | None:
    """Why `file` is not a plain .safetensors name, with the rule that it breaks."""
    if not isinstance(file, str) or not file:
        return "SD409", "a file name is needed"
    if any(mark in file for mark in ("/", "\\", "\0")) or file in (".", ".."):
        return "SD413", "a plain name in the same folder is needed"
    if not file.endswith(".safetensors"):
        return "SD409", "not a .safetensors file"
    return None
