"""EAGLE's relatives: what is read of their files, the rules of each family, and with a target."""

from pathlib import Path
from typing import Any

import pytest

from server.config.draft import read_draft
from server.config.families.model import UNKNOWN
from server.config.pair import Asked, Pair, judge_pair
from server.config.target import read_target
from server.findings import CheckStatus
from tests.config.drafts import GONE, Raw, finding_of, judge, refusals, rules_of
from tests.config.families.eagle_relatives import (
    DEEPSPEC,
    EAGLE,
    EAGLE3,
    MEDUSA,
    MIMO,
    MTP,
    P_EAGLE,
    PLAIN,
    judge_with,
    with_target,
)
from tests.config.pairs import errors, status
from tests.corpus import corpus_file, corpus_files

ROPE = ("rope_theta", "max_position_embeddings")
MODULE = {"model.mtp_layers.0.input_proj.weight"}
NESTED_IDS = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 32]}}
TOP_IDS = {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}


def field(base: Raw, changes: Raw, *names: str) -> tuple[object, ...]:
    """What was read of the changed file for each of `names`."""
    draft = judge(base, changes)
    assert draft.reading is not None
    return tuple(getattr(draft.reading.partial, name) for name in names)


@pytest.mark.parametrize(
    ("base", "family", "facts"),
    [
        (EAGLE3, "eagle3", {"draft_vocab_size": 32000, "captured_count": 3, "decoder": "llama"}),
        (DEEPSPEC, "eagle3", {"captured_count": 5, "decoder": "qwen3", "num_target_layers": 36}),
        (P_EAGLE, "p-eagle", {"mask_token_id": 151669, "num_hidden_layers": 4}),
        (EAGLE, "eagle", {"hidden_size": 4096, "vocab_size": 151936, "dtype": "bfloat16"}),
        (PLAIN, "draft-model", {"vocab_size": 151936, "own_hidden_size": 1024}),
        (MTP, "mtp", {"target_hidden_size": 4096, "module": "angelspec-dense"}),
        (MEDUSA, "medusa", {"num_heads": 3, "num_hidden_layers": 1, "draft_vocab_size": None}),
    ],
)
def test_file_is_read_and_refused_by_its_name_only(base: Raw, family: str, facts: Raw) -> None:
    draft = judge(base)
    assert (draft.family, draft.schema_id, refusals(draft)) == (family, "flat", ["SD312"])
    assert rules_of(draft) == []
    assert draft.reading is not None
    assert {name: getattr(draft.reading.partial, name) for name in facts} == facts


@pytest.mark.parametrize("base", [EAGLE3, P_EAGLE, EAGLE, PLAIN])
def test_required_field_that_is_missing_is_told(base: Raw) -> None:
    draft = judge(base, {"vocab_size": GONE})
    assert finding_of(draft, "SD105").message == "draft vocab_size is missing"
    assert refusals(draft) == ["SD312", "SD105"]


@pytest.mark.parametrize("base", [EAGLE3, P_EAGLE, EAGLE, PLAIN, MTP, MEDUSA])
def test_field_of_the_wrong_type_is_told(base: Raw) -> None:
    assert finding_of(judge(base, {"vocab_size": "151936"}), "SD107").locations[0].pointer == (
        "/vocab_size"
    )


@pytest.mark.parametrize("base", [EAGLE3, P_EAGLE, EAGLE, PLAIN])
def test_positions_and_rotary_base_are_the_drafts_own(base: Raw) -> None:
    draft = judge(base)
    assert draft.reading is not None
    assert [draft.reading.unresolved[name] for name in ROPE] == ["SD312", "SD312"]
    assert errors(with_target(draft)) == []


def test_reduced_vocabulary_is_no_larger_than_the_whole() -> None:
    assert rules_of(judge(EAGLE3, {"draft_vocab_size": 151936})) == []
    message = finding_of(judge(EAGLE3, {"draft_vocab_size": 151937}), "SD108").message
    assert message == "draft draft_vocab_size is 151937, draft vocab_size is 151936"


@pytest.mark.parametrize(
    ("changes", "outputs"),
    [
        (NESTED_IDS, (1, 17, 32)),
        (TOP_IDS, (1, 17, 32)),
        ({**NESTED_IDS, **TOP_IDS}, (1, 17, 32)),
        ({"target_layer_ids": [1, 17, 32]}, (1, 17, 32)),
    ],
)
def test_ids_of_each_schema_name_the_same_layers(changes: Raw, outputs: tuple[int, ...]) -> None:
    assert field(EAGLE3, changes, "captured_outputs", "captured_count") == (outputs, 3)


def test_ids_that_name_other_layers_at_two_places_disagree() -> None:
    both = {**NESTED_IDS, "eagle_aux_hidden_state_layer_ids": [2, 18, 34]}
    draft = judge(EAGLE3, both)
    assert [place.pointer for place in finding_of(draft, "SD110").locations] == [
        "/eagle_config/eagle_aux_hidden_state_layer_ids",
        "/eagle_aux_hidden_state_layer_ids",
    ]


def test_number_of_captured_layers_may_be_stated_alone() -> None:
    assert field(EAGLE3, {"num_aux_hidden_states": 4}, "captured_count") == (4,)
    assert rules_of(judge(EAGLE3, {"num_aux_hidden_states": 3, **TOP_IDS})) == []
    told = finding_of(judge(EAGLE3, {"num_aux_hidden_states": 4, **TOP_IDS}), "SD110")
    assert "number of captured layers is 3" in told.message


def test_malformed_ids_are_told_once_and_leave_their_number_open() -> None:
    draft = judge(EAGLE3, {"eagle_aux_hidden_state_layer_ids": 5})
    assert rules_of(draft) == ["SD107"]
    assert draft.reading is not None
    assert draft.reading.unresolved["captured_count"] == "SD312"
    assert rules_of(judge(EAGLE3, {"eagle_aux_hidden_state_layer_ids": [5, 3, 9]})) == ["SD116"]


@pytest.mark.parametrize("key", ["mask_token_id", "pard_token", "ptd_token_id"])
def test_mask_token_of_p_eagle_has_three_names(key: str) -> None:
    assert field(P_EAGLE, {"mask_token_id": GONE, key: 7}, "mask_token_id") == (7,)
    assert rules_of(judge(P_EAGLE, {"mask_token_id": 7, key: 7})) == []
    assert rules_of(judge(P_EAGLE, {"mask_token_id": GONE, key: 151936})) == ["SD108"]
    clash = judge(P_EAGLE, {"mask_token_id": 6, "pard_token": 7})
    assert rules_of(clash) == ["SD110"]


def test_heads_and_head_dim_that_are_absent_follow_from_the_others() -> None:
    absent = {"num_key_value_heads": GONE, "head_dim": None}
    assert field(EAGLE3, absent, "num_key_value_heads", "head_dim") == (32, 128)
    draft = judge(EAGLE3, {"head_dim": GONE, "num_attention_heads": 24})
    assert draft.reading is not None
    assert draft.reading.unresolved["head_dim"] == "SD312"
    assert rules_of(judge(EAGLE3, {"num_key_value_heads": 7})) == ["SD119"]


def test_module_inside_its_target_states_the_targets_depth() -> None:
    draft = judge_with(MIMO, MODULE)
    assert (draft.family, draft.schema_id) == ("mtp", "flat")
    assert errors(with_target(draft, num_hidden_layers=40)) == ["SD202"]
    assert errors(with_target(draft)) == []


@pytest.mark.parametrize(
    ("base", "target", "wrong"),
    [
        (EAGLE3, {"hidden_size": 2560}, ["SD201"]),
        (EAGLE3, {"vocab_size": 152064}, ["SD203"]),
        (EAGLE3, {"model_types": ("llama",)}, ["SD216"]),
        (EAGLE3, {"vocab_size": 31999}, ["SD203", "SD215"]),
        (DEEPSPEC, {"num_hidden_layers": 32}, ["SD202", "SD209"]),
        (P_EAGLE, {"vocab_size": 151669}, ["SD203", "SD210"]),
        (EAGLE, {"hidden_size": 2560}, ["SD201"]),
        (PLAIN, {"vocab_size": 248320}, ["SD203"]),
        (PLAIN, {"hidden_size": 2560}, []),
        (MTP, {"hidden_size": 2560}, ["SD201"]),
        (MEDUSA, {"hidden_size": 2560}, ["SD201"]),
        (MEDUSA, {"vocab_size": 128256}, ["SD203"]),
    ],
)
def test_wrong_target_is_told_and_the_right_one_is_not(
    base: Raw, target: dict[str, Any], wrong: list[str]
) -> None:
    draft = judge(base)
    assert errors(with_target(draft, model_types=("qwen3",))) == []
    assert errors(with_target(draft, **target)) == wrong


def test_width_of_a_wider_target_is_compared_and_not_the_drafts() -> None:
    draft = judge(EAGLE3, {"target_hidden_size": 8192})
    assert errors(with_target(draft, hidden_size=8192)) == []
    assert errors(with_target(draft)) == ["SD201"]


def test_rules_without_their_fields_wait_on_the_refusal() -> None:
    outcome = with_target(judge(EAGLE3))
    for rule in ("SD202", "SD204", "SD205", "SD209", "SD210"):
        assert status(outcome, rule) is CheckStatus.SKIP


# Names of real files, the folder they are in, and the target they were made for.
REAL = {
    "AngelSlim-qwen3-8b-eagle3": ("eagle3", "Qwen__Qwen3-8B"),
    "AngelSlim-qwen3-4b-eagle3": ("eagle3", "Qwen__Qwen3-4B"),
    "AngelSlim-qwen3-30b-a3b-eagle3": ("eagle3", "Qwen__Qwen3-30B-A3B"),
    "eagle3_qwen3_8b_ttt7.reconstructed": ("eagle3", "Qwen__Qwen3-8B"),
    "SpecForge-qwen3-235B-A22B-eagle3": ("eagle3", "Qwen__Qwen3-235B-A22B"),
    "SpecForge-llama3-8B-eagle3": ("eagle3", "meta-llama__Meta-Llama-3.1-8B"),
    "SpecForge-qwen3-8b-peagle": ("peagle", "Qwen__Qwen3-8B"),
    "AngelSpec-mtp_qwen3_8b_dense": ("mtp", "Qwen__Qwen3-8B"),
}
WRONG = "Qwen__Qwen3-0.6B"


def real(name: str) -> Path:
    folder = REAL[name][0]
    (path,) = [path for path in corpus_files(folder) if path.stem.endswith(f"__{name}")]
    return path


@pytest.mark.parametrize("name", REAL)
def test_real_file_fits_its_target_and_no_other(name: str) -> None:
    draft = read_draft(real(name), False)
    assert draft.reading is not None
    found = {}
    for target in (REAL[name][1], WRONG):
        reading = read_target(corpus_file(f"target/{target}.json"), False).reading
        assert reading is not None
        found[target] = errors(judge_pair(Pair(draft.reading, reading, Asked())))
    assert found[REAL[name][1]] == []
    assert "SD201" in found[WRONG]


@pytest.mark.parametrize("folder", ["eagle3", "peagle", "mtp", "medusa", "eagle"])
def test_no_real_file_has_an_error_of_its_own(folder: str) -> None:
    for path in corpus_files(folder):
        draft = read_draft(path, False)
        assert refusals(draft) == ["SD302" if folder == "eagle" else "SD312"], path.name
        assert rules_of(draft) == [], path.name
        assert (draft.family == UNKNOWN) is (folder == "eagle")
