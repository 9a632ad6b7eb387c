"""No JSON object raises, whatever stands at whichever key."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.config.draft import Draft, ensure_servable, judge_file
from server.config.families.model import DraftFile
from server.config.strict_json import parse_bytes
from server.config.values import Source
from server.findings import Outcome
from tests.config.drafts import DSPARK, DSPINE, FLAT, NESTED, Raw

KEYS = sorted(
    {*NESTED, *FLAT, *DSPARK, *DSPINE["dflash_config"], "code_bridge_second_pass", "num_anchors"}
    | {"rank", "eps", "feature_layers", "mode", "first_exact", "head_topk", "rope_type", "a/b~"}
    | {"markov_rank", "projector_type", "conv_kernel_size", "causal", "draft_vocab_size"}
    | {"speculators_model_type", "medusa_num_heads", "num_nextn_predict_layers", "pard_token"}
)
STRANGE = st.sampled_from(
    ["\ud800", "DFlashDraftModel", "Qwen3DSparkModel", "LlamaForCausalLM", "eagle", "mtp", ""]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 1, 10**299, -(10**200), 2**63])
    | st.floats()
    | st.text(max_size=5)
    | STRANGE
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)
CHANGES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


def judged(raw: dict[str, Any]) -> Draft:
    draft = judge_file(DraftFile(raw, Source("draft", "config.json")), Outcome())
    for method in ("auto", "dflash"):
        outcome = ensure_servable(draft, method) + draft.outcome
        for found in outcome.findings:
            assert len(found.message) < 1500
            json.dumps([place.value for place in found.locations], allow_nan=False)
    return draft


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), VALUES, max_size=8))
def test_arbitrary_objects_are_judged(raw: dict[str, Any]) -> None:
    judged(raw)


@settings(max_examples=200)
@given(st.sampled_from([NESTED, FLAT, DSPARK, DSPINE]), CHANGES, CHANGES)
def test_changed_files_are_judged(base: Raw, top: Raw, nested: Raw) -> None:
    raw = {**deepcopy(dict(base)), **top}
    if isinstance(raw.get("dflash_config"), dict):
        raw["dflash_config"].update(nested)
    draft = judged(raw)
    if draft.reading is not None and draft.reading.record is None:
        assert draft.outcome.refused or "SD106" in draft.reading.unresolved.values()


@given(st.sampled_from([NESTED, FLAT, DSPARK, DSPINE]), CHANGES)
def test_written_and_read_again(base: Raw, top: Raw) -> None:
    value, _ = parse_bytes(json.dumps({**base, **top}).encode("utf-8", "surrogatepass"))
    assert value is not None
    judged(value)
