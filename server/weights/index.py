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
from server.weights.entries import TensorEntry
from server.weights.files import Shard, WeightFault, count, name_list
from server.weights.header import Header, examine
from server.weights.places import misplaced

_FOLDER_RULES = ("SD405", "SD412", "SD411")
_INDEX_RULES = ("SD409", "SD413")
_SHARD_RULES = ("SD406", "SD414", "SD407", "SD408")
_AFTER = ("SD410", "SD417")
_ALL_RULES = _FOLDER_RULES + _INDEX_RULES + _SHARD_RULES + _AFTER


@dataclass(frozen=True, slots=True)
class Inventory:
    """The tensors of one checkpoint by name, and the files that hold them.

    Unless it is `whole`, something in it is refused, and nothing may be loaded by it. `unread`
    are then the tensors that the index or a header names and of which no more is known.
    """

    role: str
    folder: Path
    shards: tuple[Shard, ...]
    tensors: Mapping[str, TensorEntry]
    whole: bool = True
    unread: frozenset[str] = frozenset()


def read_inventory(role: str, folder: Path) -> tuple[Inventory | None, Outcome]:
    """Read every header of the checkpoint in `folder`; None when any fault was found.

    Never raises. Rules SD405 to SD414 and SD417.
    """
    inventory, outcome = survey(role, folder)
    return (inventory if inventory and inventory.whole else None), outcome


def survey(role: str, folder: Path) -> tuple[Inventory | None, Outcome]:
    """The same, with what could be read beside the faults; None when that is nothing."""
    try:
        names = list_folder(folder)
        choice = choose(folder, names)
    except WeightFault as fault:
        skip = dict.fromkeys(_ALL_RULES, f"waits on {fault.rule}")
        return None, outcome_by_rule(_ALL_RULES, [_finding(role, folder, fault)], skip)
    if choice.shards:
        return _read_shards(role, folder, names, choice)
    findings = [_finding(role, folder / INDEX_NAME, fault) for fault in choice.faults]
    waits = f"waits on {choice.faults[0].rule}"
    skip = dict.fromkeys(_INDEX_RULES + _SHARD_RULES + _AFTER, waits)
    return None, outcome_by_rule(_ALL_RULES, findings, skip)


def _read_shards(
    role: str, folder: Path, names: frozenset[str], choice: Choice
) -> tuple[Inventory | None, Outcome]:
    findings = [_finding(role, folder / INDEX_NAME, fault) for fault in choice.faults]
    findings += _missing(role, folder, names, choice)
    headers: dict[str, Header] = {}
    for name in sorted(names.intersection(choice.shards)):
        header, faults = examine(folder / name)
        findings += [_finding(role, folder / name, fault) for fault in faults]
        if header is not None:
            headers[name] = header
    findings += _misplaced(role, folder, choice, headers)
    inventory = Inventory(
        role,
        folder,
        tuple(header.shard for header in headers.values()),
        _tensors(choice, headers),
        whole=not findings,
        unread=_unread(choice, headers),
    )
    findings += _stray(role, folder, names, choice)
    single = choice.weight_map is None
    skip = dict.fromkeys((*_INDEX_RULES, "SD410"), "one file, no index") if single else {}
    return (inventory if headers else None), outcome_by_rule(_ALL_RULES, findings, skip)


def _tensors(choice: Choice, headers: Mapping[str, Header]) -> Mapping[str, TensorEntry]:
    """By name; of two with one name, which is refused, the one that the index gives."""
    places = choice.weight_map or {}
    tensors: dict[str, TensorEntry] = {}
    for file, header in headers.items():
        for name, entry in header.tensors.items():
            if name not in tensors or places.get(name) == file:
                tensors[name] = entry
    return tensors


def _unread(choice: Choice, headers: Mapping[str, Header]) -> frozenset[str]:
    bad = [name for header in headers.values() for name in header.bad]
    files = (choice.weight_map or {}).items()
    shut = (name for name, file in files if file not in headers)
    return choice.lost.union(bad, shut)


def _misplaced(
    role: str, folder: Path, choice: Choice, headers: Mapping[str, Header]
) -> list[Finding]:
    if choice.weight_map is None:
        return []
    where = Location(role, str(folder / INDEX_NAME), "/weight_map", has_value=False)
    clauses = misplaced(choice.weight_map, headers, choice.lost)
    return [finding("SD410", f"{role} {message}", where) for message in clauses]


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
    named = role if path.name == role else f"{role} {path.name}"
    return finding(fault.rule, f"{named} {fault.message}", where, fix=fault.fix)
