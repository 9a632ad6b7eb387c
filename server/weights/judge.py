"""Judging a checkpoint's tensors against its config, from headers alone; all faults in one pass.

The header is the truth about what is stored: a config that states another dtype is told, and
the header's is used.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from server.config.checks import Reading, located
from server.config.records import Backbone, BlockDraft
from server.config.rules import finding
from server.config.tensors import ExpectedTensor
from server.config.values import pointer
from server.findings import Finding, Location, Outcome, Severity, outcome_of
from server.weights.entries import TensorEntry
from server.weights.files import count, name_list
from server.weights.index import Inventory
from server.weights.load_plan import TORCH_NAMES, LoadPlan
from server.weights.quantised import QUANTISED_FIX, layout_of
from server.weights.spelling import spellings

JUDGED_RULES = ("SD402", "SD403", "SD401", "SD404", "SD416")

_SHAPES_SHOWN = 10
_TABLES = frozenset(("embed_tokens.weight", "lm_head.weight"))
_OWN_TABLES = (
    "this schema borrows the target's tables: if they are the target's, export the draft without "
    "them; else use a server that reads a draft's own"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """What the checkpoint holds, what the config asks for, and where the config was read."""

    role: str
    folder: Path
    tensors: Mapping[str, TensorEntry]
    expected: Mapping[str, ExpectedTensor]
    config: Reading[Backbone]
    unread: frozenset[str]

    def near(self, name: str) -> Location:
        """The header entry of tensor `name`."""
        return Location(self.role, str(self.tensors[name].file), pointer(name), has_value=False)

    def to_load(self) -> list[TensorEntry]:
        return [
            e for n, e in self.tensors.items() if n in self.expected and self.expected[n].loaded
        ]


def judge_tensors(
    inventory: Inventory,
    layout: Sequence[ExpectedTensor],
    config: Reading[Backbone],
    aliases: Sequence[tuple[str, str]] = (),
) -> tuple[LoadPlan | None, Outcome]:
    """Names, shapes and dtypes against `layout`. The plan is None when an error was found.

    Of an inventory that is not whole, what could be read is judged, and no tensor is missing
    that some file still promises. `config` is where `layout` came from. `aliases` are beginnings
    of names that some exporters write, each with the one that `layout` has. Rules SD401 to SD404
    and SD416.
    """
    plain = spellings((*inventory.tensors, *inventory.unread), layout, aliases)
    case = _Case(
        inventory.role,
        inventory.folder,
        _renamed(inventory.tensors, plain),
        {tensor.name: tensor for tensor in layout},
        config,
        frozenset(plain.get(name, name) for name in inventory.unread),
    )
    outcome = (
        outcome_of("SD402", _missing(case))
        + outcome_of("SD403", _unexpected(case))
        + outcome_of("SD401", _shapes(case))
        + outcome_of("SD404", _dtypes(case))
        + outcome_of("SD416", _left_on_disk(case))
    )
    planned = inventory.whole and not outcome.refused
    return (_plan(inventory, case) if planned else None), outcome


def _renamed(
    tensors: Mapping[str, TensorEntry], plain: Mapping[str, str]
) -> Mapping[str, TensorEntry]:
    if not plain:
        return tensors
    renamed = ((plain.get(name, name), entry) for name, entry in tensors.items())
    return {name: entry._replace(name=name) for name, entry in renamed}


def _missing(case: _Case) -> Iterator[Finding]:
    known = case.tensors.keys() | case.unread
    absent = [n for n, e in case.expected.items() if e.needed and n not in known]
    if not absent:
        return
    needed = sum(tensor.needed for tensor in case.expected.values())
    message = f"{case.role} checkpoint lacks {len(absent)} of {needed} tensors: {name_list(absent)}"
    where = Location(case.role, str(case.folder), value=name_list(absent))
    fix = None
    if absent == ["lm_head.weight"] and case.role == "target":
        fix = "set tie_word_embeddings true only if the model was trained so; else fetch it again"
    yield finding("SD402", message, where, fix=fix)


def _unexpected(case: _Case) -> Iterator[Finding]:
    extra = [name for name in case.tensors if name not in case.expected]
    if not extra:
        return
    message = f"{case.role} checkpoint holds {count(len(extra), 'tensor')}"
    told, fix = f"{message} that its config does not ask for: {name_list(extra)}", None
    if layout := layout_of(extra):
        told, fix = f"{told}; this looks like {layout}", QUANTISED_FIX
    draft = case.config.partial
    if isinstance(draft, BlockDraft) and _TABLES.issuperset(extra):
        fix = _OWN_TABLES
    families = _families_of(extra, draft) if isinstance(draft, BlockDraft) else []
    if families:
        told += f"; a family that has such tensors is {' or '.join(families)}"
        fix = f"this looks like a draft of {' or '.join(families)} under another name: use "
        fix += "the config it was trained with"
    yield finding("SD403", told, case.near(extra[0]), fix=fix)


def _families_of(names: Sequence[str], draft: BlockDraft) -> list[str]:
    """The other drafter families whose own tensors are among `names`."""
    from server.config.families import known_families  # wanted only when something is wrong

    others = [f for f in known_families() if f.id != draft.family]
    marks = [(f.id, mark) for f in others if f.tensors for mark in f.tensors.marks]
    return list(dict.fromkeys(f for f, mark in marks if any(mark in name for name in names)))


def _shapes(case: _Case) -> Iterator[Finding]:
    wrong = [
        (entry, case.expected[name])
        for name, entry in case.tensors.items()
        if name in case.expected and entry.shape != case.expected[name].shape
    ]
    for entry, expected in wrong[:_SHAPES_SHOWN]:
        yield _shape(case, entry, expected)
    if len(wrong) > _SHAPES_SHOWN:
        rest = wrong[_SHAPES_SHOWN:]
        message = f"{case.role} has {count(len(rest), 'more tensor')} of a shape"
        told = f"{message} that its config does not imply"
        yield finding("SD401", told, case.near(rest[0][0].name))


def _shape(case: _Case, entry: TensorEntry, expected: ExpectedTensor) -> Finding:
    found, asked = list(entry.shape), list(expected.shape)
    terms = ", ".join(expected.terms)
    shape = pointer(entry.name, "shape")
    return finding(
        "SD401",
        f"{case.role} {entry.name} is {found} in its header, its config implies {asked} ({terms})",
        Location(case.role, str(entry.file), shape, value=found),
        *_config_fields(case.config, f"{terms}, {expected.because}"),
    )


def _config_fields(config: Reading[Backbone], terms: str) -> Iterator[Location]:
    for field in dict.fromkeys(re.findall("[a-z_]+", terms)):
        if field in config.pointers:
            value = getattr(config.partial, field)
            shown = list(value) if isinstance(value, tuple) else value
            yield located(config, config.pointers[field], shown)


def _dtypes(case: _Case) -> Iterator[Finding]:
    yield from _tables(case)
    entries = case.to_load()
    other = [entry for entry in entries if entry.dtype not in TORCH_NAMES]
    floats = Counter(entry.dtype for entry in entries if entry.dtype in TORCH_NAMES)
    if other:
        counts = _counts(Counter(entry.dtype for entry in other))
        names = name_list([entry.name for entry in other])
        message = f"{case.role} stores tensors as {counts}, only BF16, F16 and F32 are loaded"
        fix = QUANTISED_FIX if layout_of(case.tensors) else None
        yield finding("SD404", f"{message}: {names}", _at_dtype(case, other[0]), fix=fix)
    if len(floats) > 1:
        rarest = min(floats, key=lambda dtype: floats[dtype])
        names = name_list([entry.name for entry in entries if entry.dtype == rarest])
        message = f"{case.role} mixes dtypes: {_counts(floats)}; {rarest} are {names}"
        first = next(entry for entry in entries if entry.dtype == rarest)
        yield finding("SD404", message, _at_dtype(case, first))
    if len(floats) == 1 and not other:
        yield from _declared(case, entries[0])


def _tables(case: _Case) -> Iterator[Finding]:
    """Tables of ids and masks have one dtype each."""
    for name, entry in case.tensors.items():
        asked = case.expected[name].dtypes if name in case.expected else ()
        if asked and entry.dtype not in asked:
            message = f"{case.role} {name} is {entry.dtype}, {' or '.join(asked)} is needed"
            yield finding("SD404", message, _at_dtype(case, entry))


def _declared(case: _Case, entry: TensorEntry) -> Iterator[Finding]:
    stated = case.config.partial.dtype
    stored = TORCH_NAMES[entry.dtype]
    if stated is not None and stated != stored:
        message = f"{case.role} config states dtype {stated}, all tensors are stored as {stored}"
        yield finding(
            "SD404",
            message,
            *_config_fields(case.config, "dtype"),
            _at_dtype(case, entry),
            fix=f"correct the config; the stored {stored} is what is read and billed",
            severity=Severity.WARNING,
        )


def _at_dtype(case: _Case, entry: TensorEntry) -> Location:
    return Location(case.role, str(entry.file), pointer(entry.name, "dtype"), value=entry.dtype)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {dtype}" for dtype, number in counter.most_common())


def _left_on_disk(case: _Case) -> Iterator[Finding]:
    kept = [
        e for n, e in case.tensors.items() if n in case.expected and not case.expected[n].loaded
    ]
    if kept:
        size_bytes = sum(entry.size_bytes for entry in kept)
        names = name_list([entry.name for entry in kept])
        message = f"{case.role} ships {count(len(kept), 'tensor')} not loaded ({size_bytes} bytes)"
        yield finding("SD416", f"{message}: {names}", case.near(kept[0].name))


def _plan(inventory: Inventory, case: _Case) -> LoadPlan:
    entries = tuple(sorted(case.to_load(), key=lambda entry: (entry.file, entry.begin)))
    files = {entry.file for entry in entries}
    shards = {shard.path: shard for shard in inventory.shards if shard.path in files}
    return LoadPlan(inventory.role, entries, shards, TORCH_NAMES[entries[0].dtype])
