"""Which files make up a checkpoint, and which tensors they hold. No weight is read.

All faults of all shards are told in one pass. Nothing is repaired, deleted or fetched
(https://github.com/sgl-project/sglang/issues/14754).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from server.config.rules import finding
from server.findings import Finding, Location, Outcome, outcome_by_rule
from server.weights.choice import INDEX_NAME, Choice, choose, list_folder
from server.weights.files import Shard, WeightFault, count, name_list
from server.weights.header import Header, TensorEntry, read_header
from server.weights.places import misplaced

_FOLDER_RULES = ("SD405", "SD412", "SD411")
_INDEX_RULES = ("SD409", "SD413")
_SHARD_RULES = ("SD406", "SD414", "SD407", "SD408")
_AFTER = ("SD410", "SD417")
_ALL_RULES = _FOLDER_RULES + _INDEX_RULES + _SHARD_RULES + _AFTER


@dataclass(frozen=True, slots=True)
class Inventory:
    """The tensors of one checkpoint by name, and the files that hold them."""

    role: str
    folder: Path
    shards: tuple[Shard, ...]
    tensors: Mapping[str, TensorEntry]


def read_inventory(role: str, folder: Path) -> tuple[Inventory | None, Outcome]:
    """Read every header of the checkpoint in `folder`; None when any fault was found.

    Never raises. Rules SD405 to SD414 and SD417.
    """
    try:
        names = list_folder(folder)
        choice = choose(folder, names)
    except WeightFault as fault:
        skip = dict.fromkeys(_ALL_RULES, f"waits on {fault.rule}")
        return None, outcome_by_rule(_ALL_RULES, [_finding(role, folder, fault)], skip)
    if choice.faults:
        findings = [_finding(role, folder / INDEX_NAME, fault) for fault in choice.faults]
        waits = f"waits on {choice.faults[0].rule}"
        skip = dict.fromkeys(_INDEX_RULES + _SHARD_RULES + _AFTER, waits)
        return None, outcome_by_rule(_ALL_RULES, findings, skip)
    return _read_shards(role, folder, names, choice)


def _read_shards(
    role: str, folder: Path, names: frozenset[str], choice: Choice
) -> tuple[Inventory | None, Outcome]:
    findings = _missing(role, folder, names, choice)
    headers: dict[str, Header] = {}
    for name in sorted(names.intersection(choice.shards)):
        try:
            headers[name] = read_header(folder / name)
        except WeightFault as fault:
            findings.append(_finding(role, folder / name, fault))
    skip = {}
    if choice.weight_map is None:
        skip = dict.fromkeys((*_INDEX_RULES, "SD410"), "one file, no index")
    else:
        where = Location(role, str(folder / INDEX_NAME), "/weight_map", has_value=False)
        findings += [
            finding("SD410", f"{role} {message}", where)
            for message in misplaced(choice.weight_map, headers)
        ]
    inventory = None if findings else _inventory(role, folder, headers)
    findings += _stray(role, folder, names, choice)
    return inventory, outcome_by_rule(_ALL_RULES, findings, skip)


def _inventory(role: str, folder: Path, headers: Mapping[str, Header]) -> Inventory:
    tensors = {name: entry for header in headers.values() for name, entry in header.tensors.items()}
    shards = tuple(header.shard for header in headers.values())
    return Inventory(role, folder, shards, tensors)


def _missing(role: str, folder: Path, names: frozenset[str], choice: Choice) -> list[Finding]:
    absent = sorted(set(choice.shards) - names)
    if not absent:
        return []
    message = f"{role} index names {count(len(choice.shards), 'file')}, {len(absent)} not there"
    fix = None
    if near := _near(absent[0], names.difference(choice.shards)):
        fix = f"{near} is there under a similar name: the index or the files are of another save"
    where = Location(role, str(folder / INDEX_NAME), "/weight_map", value=name_list(absent))
    return [finding("SD406", f"{message}: {name_list(absent)}", where, fix=fix)]


def _near(wanted: str, names: Iterable[str]) -> str:
    # Imported here because only a refusal needs it and each import delays all of them.
    from difflib import get_close_matches

    candidates = [name for name in names if name.endswith(".safetensors")]
    return name_list(get_close_matches(wanted, candidates, n=3, cutoff=0.7))


def _stray(role: str, folder: Path, names: frozenset[str], choice: Choice) -> list[Finding]:
    stray = sorted(n for n in names.difference(choice.shards) if n.endswith(".safetensors"))
    if not stray:
        return []
    where = Location(role, str(folder), value=name_list(stray))
    message = f"{role} folder holds {count(len(stray), 'weight file')} not read"
    return [finding("SD417", f"{message}: {name_list(stray)}", where)]


def _finding(role: str, path: Path, fault: WeightFault) -> Finding:
    where = Location(role, str(path), fault.pointer, has_value=False)
    return finding(fault.rule, f"{role} {path.name} {fault.message}", where, fix=fault.fix)
