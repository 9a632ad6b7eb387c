"""DSpine's constraints on the serial refinement (SD331 to SD334).

It is declared as dflash_config.selected_prefix_last_write_refine, as the top-level
code_bridge_second_pass, or as both. Source: pegainfer-project/pegainfer pull request 1172. Its
version and weight are settings of the training run and are never checked.
"""

from collections.abc import Iterator, Mapping

from server.config.checks import Check
from server.config.families import dspine_names as names
from server.config.families.common import Subject
from server.config.families.dspine_places import as_int
from server.config.families.keys import did_you_mean, some
from server.config.families.model import DraftFile, fault
from server.config.fields import pick
from server.config.rules import finding
from server.config.values import same, shorten
from server.findings import Finding, JsonValue

_PATHS = (("dflash_config", names.REFINE), (names.SECOND_PASS,))
_TOPK_LIMITS = (2, 64)


def _declared(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    places = [pick(file.raw, *path) for path in _PATHS]
    found = [place for place in places if place.value is not None]
    if not found:
        need = f"and so is {names.SECOND_PASS}, one of them is needed"
        yield fault("SD331", file, places[0], need)
    for place in found:
        if not isinstance(place.value, Mapping):
            yield fault("SD331", file, place, "an object is needed")


def _objects(file: DraftFile) -> list[tuple[str, ...]]:
    return [path for path in _PATHS if isinstance(pick(file.raw, *path).value, Mapping)]


def _agree(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    if len(_objects(file)) < len(_PATHS):
        return
    for key in names.REFINED:
        left, right = (pick(file.raw, *path, key) for path in _PATHS)
        if left.present is not right.present or not same(left.value, right.value):
            message = (
                f"draft {key} is {left.shown} in {names.REFINE} "
                f"and {right.shown} in {names.SECOND_PASS}"
            )
            yield finding("SD332", message, file.at(left), file.at(right))


def _values(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    for path in _objects(file):
        mode, exact, topk = (pick(file.raw, *path, key) for key in names.REFINED)
        if mode.value != "serial_table":
            yield fault("SD333", file, mode, "serial_table is needed")
        need = _exact_need(exact.value, subject)
        if need:
            yield fault("SD333", file, exact, need)
        if not _is_topk(as_int(topk.value)):
            low, high = _TOPK_LIMITS
            yield fault("SD333", file, topk, f"a power of two from {low} to {high} is needed")


def _exact_need(value: JsonValue, subject: Subject) -> str:
    # ASSUMED: the text does not say what L counts; draft layers and block size both pass.
    if as_int(value) is None:
        return "an integer is needed"
    partial, unresolved = subject.reading.partial, subject.reading.unresolved
    if "num_hidden_layers" in unresolved or "block_size" in unresolved:
        return ""
    wanted = (partial.num_hidden_layers - 1, partial.block_size - 1)
    if value in wanted:
        return ""
    return f"{wanted[0]} (draft layers - 1) or {wanted[1]} (block_size - 1) is needed"


def _is_topk(value: int | None) -> bool:
    low, high = _TOPK_LIMITS
    return value is not None and low <= value <= high and value & (value - 1) == 0


def _closed(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    second = file.top(names.SECOND_PASS).value
    keys = second if isinstance(second, Mapping) else ()

    def tell(key: str) -> Finding:
        near = did_you_mean(key, names.SECOND_PASS_KEYS)
        message = f"draft {names.SECOND_PASS} has key {shorten(key)}, which is not known"
        fix = f"did you mean {near}?" if near else None
        return finding("SD334", message, file.at(pick(file.raw, names.SECOND_PASS, key)), fix=fix)

    return some([key for key in keys if key not in names.SECOND_PASS_KEYS], tell)


CHECKS: tuple[Check[Subject], ...] = (
    Check("SD331", (), _declared),
    Check("SD332", (), _agree),
    Check("SD333", (), _values),
    Check("SD334", (), _closed),
)
