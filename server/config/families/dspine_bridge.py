"""DSpine's constraints inside the bridge (SD325 to SD327, SD329, SD330).

Source: pegainfer-project/pegainfer pull request 1172. kappa and the teacher fields are settings
of the training run and are never checked.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from server.config.checks import Check
from server.config.families import dspine_names as names
from server.config.families.common import Subject
from server.config.families.dspine_places import as_int, draft_layers, in_bridge
from server.config.families.keys import some, weight
from server.config.families.model import fault, faults
from server.config.rules import finding
from server.config.values import shorten
from server.findings import Finding, JsonValue

_RANK_STEP = 128


def _terminal(subject: Subject) -> Iterator[Finding]:
    places = (in_bridge(subject.file, key) for key in names.TERMINAL)
    return faults("SD325", subject.file, places, False, "false or none is needed")


def _writes(subject: Subject) -> Iterator[Finding]:
    mode, flag = (in_bridge(subject.file, k) for k in (names.WRITE_MODE, names.INDEPENDENT_WRITES))
    need = "independent or none is needed"
    yield from faults("SD326", subject.file, (mode,), "independent", need)
    yield from faults("SD326", subject.file, (flag,), True, "true or none is needed")


def _feature_layers(subject: Subject) -> Iterator[Finding]:
    place = in_bridge(subject.file, names.FEATURE_LAYERS)
    need = _feature_need(place.value, draft_layers(subject))
    if need:
        yield fault("SD327", subject.file, place, need)


def _feature_need(value: JsonValue, layers: int | None) -> str:
    if not isinstance(value, list) or not value:
        return "a list of layers is needed"
    ids = [item for item in map(as_int, value) if item is not None]
    if len(ids) != len(value):
        return "integers are needed"
    if any(right <= left for left, right in pairwise(ids)):
        return "a strictly increasing list is needed"
    if ids[0] < 1:
        return "layers count from 1"
    if layers is not None and ids[-1] != layers:
        return f"the last entry must be num_hidden_layers {layers}"
    return ""


def _rank(subject: Subject) -> Iterator[Finding]:
    place = in_bridge(subject.file, names.RANK)
    rank = as_int(place.value)
    if rank is None or rank <= 0 or rank % _RANK_STEP:
        need = f"a positive multiple of {_RANK_STEP} is needed"
        yield fault("SD329", subject.file, place, need)


def _code(subject: Subject) -> Iterator[Finding]:
    size, eps = (in_bridge(subject.file, key) for key in (names.CODE_SIZE, names.EPS))
    if (as_int(size.value) or 0) <= 0:
        yield fault("SD330", subject.file, size, "an integer above 0 is needed")
    if not _is_positive(eps.value):
        yield fault("SD330", subject.file, eps, "a finite number above 0 is needed")


def _is_positive(value: JsonValue) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


def _unknown_keys(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    bridge = file.inner(names.BRIDGE).value
    keys = bridge if isinstance(bridge, Mapping) else ()
    unknown = [k for k in keys if k not in names.BRIDGE_KEYS and names.TRAINING_PART not in k]

    def tell(key: str) -> Finding:
        message = f"draft {names.BRIDGE} key {shorten(key)} is ignored"
        return finding("SD111", message, file.at(in_bridge(file, key)), severity=weight(file))

    return some(unknown, tell)


_NEEDS = (names.BRIDGE,)
CHECKS: tuple[Check[Subject], ...] = (
    Check("SD325", _NEEDS, _terminal),
    Check("SD326", _NEEDS, _writes),
    Check("SD327", _NEEDS, _feature_layers),
    Check("SD329", _NEEDS, _rank),
    Check("SD330", _NEEDS, _code),
    Check("SD111", _NEEDS, _unknown_keys),
)
