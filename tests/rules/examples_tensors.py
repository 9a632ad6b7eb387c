"""Rules 4xx, each provoked in a real checkpoint of a small Qwen3 target."""

from tests.rules.example import Example
from tests.rules.make_boot import Boot
from tests.rules.make_case import make_example
from tests.rules.make_checkpoint import (
    EMBEDDING,
    HEAD,
    NORM,
    QUERY,
    SINGLE,
    Edit,
    called,
    configured,
    filled,
    shaped,
    stored,
    without,
)
from tests.rules.make_files import (
    FIRST,
    SECOND,
    copied,
    cut,
    linked,
    mapped,
    of_kind,
    placed,
    spaced,
    stamped,
)
from tests.weights.make import INDEX

_TIED, _UNTIED = (configured("tie_word_embeddings", tied) for tied in (True, False))


def _single(*edits: Edit) -> Boot:
    return Boot(edits)


def _sharded(*edits: Edit) -> Boot:
    return Boot(edits, sharded=True)


def _changed(edit: Edit) -> Boot:
    return Boot((), "--device cpu", phase="load", late=(edit,))


def _narrowed(edit: Edit) -> Boot:
    return Boot((edit,), "--device cpu --dtype float16", phase="load")


EXAMPLES: tuple[Example, ...] = (
    make_example("SD401", _single(shaped(QUERY, 25, 8)), _single(shaped(QUERY, 24, 8))),
    make_example("SD402", _single(_UNTIED, without(HEAD)), _single(_TIED, without(HEAD))),
    make_example(
        "SD403",
        _single(_TIED, called(HEAD, "lm_head.weight_packed")),
        _single(_TIED, called(HEAD, HEAD)),
    ),
    make_example("SD404", _single(stored(NORM, "F32")), _single(stored(NORM, "BF16"))),
    make_example("SD405", _single(placed("weights.safetensors")), _single(placed(SINGLE))),
    make_example(
        "SD406",
        _sharded(linked(SECOND, "../blob", there=False)),
        _sharded(linked(SECOND, "../blob", there=True)),
    ),
    make_example("SD407", _single(spaced("before")), _single(spaced("after"))),
    make_example("SD408", _single(cut(SINGLE, 1)), _single(cut(SINGLE, 0))),
    make_example("SD409", _sharded(cut(INDEX, 1)), _sharded(cut(INDEX, 0))),
    make_example("SD410", _sharded(mapped(NORM, FIRST)), _sharded(mapped(NORM, SECOND))),
    make_example(
        "SD411", _sharded(copied(SECOND, SINGLE)), _sharded(copied(SECOND, "models.safetensors"))
    ),
    make_example(
        "SD412",
        _single(placed("pytorch_model.bin")),
        _single(copied(SINGLE, "pytorch_model.bin")),
    ),
    make_example("SD413", _sharded(mapped(NORM, f"./{SECOND}")), _sharded(mapped(NORM, SECOND))),
    make_example(
        "SD414", _sharded(of_kind(SECOND, "FIFO")), _sharded(of_kind(SECOND, "regular file"))
    ),
    make_example(
        "SD415", _changed(stamped(SINGLE, "modification")), _changed(stamped(SINGLE, "access"))
    ),
    make_example("SD416", _single(_TIED), _single(_UNTIED)),
    make_example(
        "SD417",
        _single(copied(SINGLE, "old.safetensors")),
        _single(copied(SINGLE, "old.safetensors.bak")),
    ),
    # float16 ends at 65504; these are the two BF16 values around it.
    make_example("SD418", _narrowed(filled(EMBEDDING, 65536)), _narrowed(filled(EMBEDDING, 65280))),
)
