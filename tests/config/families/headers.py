"""The tensors that a draft's config asks for, as values and as a header that is judged."""

from pathlib import Path

import torch

from server.config.draft import Draft
from server.config.tensors import ExpectedTensor
from server.findings import Outcome
from server.weights.index import read_inventory
from server.weights.judge import judge_tensors
from tests.weights.make import write_single

_DTYPES = {"I64": torch.int64, "BOOL": torch.bool}


def layout_of(draft: Draft) -> dict[str, ExpectedTensor]:
    """The tensors that the draft's config asks for, by name."""
    assert draft.tensors is not None
    assert draft.reading is not None
    assert not set(draft.tensors.needs) & set(draft.reading.unresolved)
    return {told.name: told for told in draft.tensors.expected(draft.reading.partial)}


def values_of(draft: Draft) -> dict[str, torch.Tensor]:
    """Zeros for every tensor that the config asks for or allows."""
    layout = layout_of(draft).values()
    kinds = {told.name: told.dtypes[0] if told.dtypes else "" for told in layout}
    return {
        told.name: torch.zeros(told.shape, dtype=_DTYPES.get(kinds[told.name], torch.bfloat16))
        for told in layout
    }


def judge_header(draft: Draft, folder: Path, tensors: dict[str, torch.Tensor]) -> Outcome:
    """What the tensor rules say of `tensors` under the draft's config."""
    inventory, outcome = read_inventory("draft", write_single(folder, tensors))
    assert inventory is not None, outcome.findings
    assert draft.reading is not None
    assert draft.tensors is not None
    layout = list(layout_of(draft).values())
    return judge_tensors(inventory, layout, draft.reading, draft.tensors.aliases)[1]
