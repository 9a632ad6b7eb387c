"""Defaults by device, and what the operator set."""

import pytest

from server.config.records import AnchorLayout
from server.flags import FLAGS
from server.memory.facts import DeviceKind
from server.memory.shape import resolve_shape
from tests.memory.make import make_draft, make_facts, make_options


@pytest.mark.parametrize(
    ("kind", "tokens", "seqs"),
    [(DeviceKind.CUDA, 8192, 64), (DeviceKind.CPU, 256, 4)],
)
def test_defaults_depend_on_the_device_and_say_so(kind: DeviceKind, tokens: int, seqs: int) -> None:
    shape = resolve_shape(make_options(), make_facts(kind=kind), None)
    assert (shape.max_num_batched_tokens, shape.max_num_seqs) == (tokens, seqs)
    assert shape.sources["max_num_seqs"].startswith(f"default for {kind}")
    helps = {flag.field: flag.help for flag in FLAGS}
    named = "CUDA" if kind is DeviceKind.CUDA else "a CPU"
    assert f"{seqs} on {named}" in helps["max_num_seqs"]
    assert f"{tokens} on {named}" in helps["max_num_batched_tokens"]


def test_what_the_operator_set_is_taken_with_its_source() -> None:
    options = make_options(
        max_num_batched_tokens=512,
        max_num_seqs=3,
        num_speculative_tokens=4,
        sources={"max_num_seqs": "flag --max-num-seqs"},
    )
    shape = resolve_shape(options, make_facts(), make_draft())
    assert (shape.max_num_batched_tokens, shape.max_num_seqs, shape.draft_tokens) == (512, 3, 4)
    assert shape.sources["max_num_seqs"] == "flag --max-num-seqs"


@pytest.mark.parametrize(("layout", "drafted"), [(AnchorLayout.DROP, 15), (AnchorLayout.FIRST, 16)])
def test_the_drafts_layout_says_how_many_rows_are_verified(
    layout: AnchorLayout, drafted: int
) -> None:
    shape = resolve_shape(make_options(), make_facts(), make_draft(layout=layout))
    assert (shape.draft_tokens, shape.verify_tokens) == (drafted, drafted + 1)


def test_without_a_draft_one_row_is_decoded() -> None:
    shape = resolve_shape(make_options(num_speculative_tokens=4), make_facts(), None)
    assert (shape.draft_tokens, shape.verify_tokens) == (0, 1)
