"""DSpine's constraints on the file as a whole (SD320 to SD324, SD328, SD335, SD336).

Source: pegainfer-project/pegainfer pull request 1172. Each check stands alone, so that all
faults of a file are told in one pass. Settings of the training run are never checked: kappa,
selected_prefix_decode_mode, the teacher fields, the refinement's version and weight.
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families import dspine_bridge, dspine_refinement
from server.config.families import dspine_names as names
from server.config.families.common import Subject
from server.config.families.dspine_places import bridge_missing, draft_layers
from server.config.families.keys import CAUSAL_KEYS, WINDOW_KEYS
from server.config.families.model import fault
from server.config.rules import finding
from server.config.values import same, shorten
from server.findings import Finding

_HEAD_DIM = 128
_HIDDEN_STEP = 512


def _whole(subject: Subject) -> Iterator[Finding]:
    if bridge_missing(subject.file):
        place = subject.file.inner(names.BRIDGE)
        yield fault("SD320", subject.file, place, "an object with the bridge's sizes is needed")


def _causal(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    inside = file.inner(names.BLOCK_CAUSAL)
    if inside.value is not True:
        yield fault("SD321", file, inside, "true is needed")
    for place in file.both(*CAUSAL_KEYS):
        if place.value is not None and place.value is not True:
            yield fault("SD321", file, place, "true or none is needed")


def _full_attention(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    place = file.top("layer_types")
    if place.value is None:
        return
    if not isinstance(place.value, list):
        yield fault("SD322", file, place, "a list is needed")
        return
    other = next((t for t in place.value if t != "full_attention"), None)
    if any(t != "full_attention" for t in place.value):
        message = f"draft layer_types names {shorten(other)}, full_attention is needed"
        yield finding("SD322", message, file.at(place))
    layers = draft_layers(subject)
    if layers is not None and len(place.value) != layers:
        message = f"draft layer_types has {len(place.value)} entries, num_hidden_layers is {layers}"
        yield finding("SD322", message, file.at(place), file.at(file.top("num_hidden_layers")))


def _sliding(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    use, window = file.top("use_sliding_window"), file.top("sliding_window")
    if use.value is not None and use.value is not False:
        yield fault("SD323", file, use, "false or none is needed")
    if window.value is not None and use.value is not False:
        yield fault("SD323", file, window, "null is needed unless use_sliding_window is false")
    for place in file.both(*WINDOW_KEYS):
        if place.value is not None and place.value is not False:
            yield fault("SD323", file, place, "none is needed")


def _anchor_drop(subject: Subject) -> Iterator[Finding]:
    file = subject.file
    for place in file.both("num_anchors"):
        if place.value is not None:
            yield fault("SD324", file, place, "none is needed")
    for place in file.both("markov_rank"):
        if place.value is not None and not same(place.value, 0):
            yield fault("SD324", file, place, "0 or none is needed")


def _probes(subject: Subject) -> Iterator[Finding]:
    for place in map(subject.file.inner, names.PROBES):
        off = place.value is None or place.value is False or same(place.value, 0)
        if not off:
            yield fault("SD328", subject.file, place, "false or none is needed")


def _dflash2(subject: Subject) -> Iterator[Finding]:
    for place in subject.file.both(*names.DFLASH2):
        if place.value is not None:
            yield fault("SD335", subject.file, place, "none is needed beside a bridge")


def _head_shape(subject: Subject) -> Iterator[Finding]:
    if subject.reading.partial.head_dim != _HEAD_DIM:
        place = subject.file.top("head_dim")
        yield fault("SD336", subject.file, place, f"{_HEAD_DIM} is needed")


def _hidden_shape(subject: Subject) -> Iterator[Finding]:
    if subject.reading.partial.hidden_size % _HIDDEN_STEP:
        place = subject.file.top("hidden_size")
        yield fault("SD336", subject.file, place, f"a multiple of {_HIDDEN_STEP} is needed")


CHECKS: tuple[Check[Subject], ...] = (
    Check("SD320", (), _whole),
    Check("SD321", (), _causal),
    Check("SD322", (), _full_attention),
    Check("SD323", (), _sliding),
    Check("SD324", (), _anchor_drop),
    *dspine_bridge.CHECKS,
    Check("SD328", (), _probes),
    *dspine_refinement.CHECKS,
    Check("SD335", (), _dflash2),
    Check("SD336", ("head_dim",), _head_shape),
    Check("SD336", ("hidden_size",), _hidden_shape),
)
