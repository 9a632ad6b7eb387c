"""Families that are refused by name: the file that shows each, and the nearest that does not."""

from pathlib import Path

import pytest

from server.config import families
from server.config.draft import UNKNOWN, ensure_servable
from server.config.families import known_families
from tests.config.drafts import (
    BACKBONE,
    BRIDGE,
    DSPARK,
    FLAT,
    GONE,
    IDS,
    NESTED,
    Raw,
    judge,
    refusals,
)

LLAMA: Raw = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 1,
    "vocab_size": 151936,
}
EAGLE3: Raw = {**LLAMA, "draft_vocab_size": 32000}
DEEPSPEC_EAGLE3: Raw = {**LLAMA, "architectures": ["Qwen3Eagle3Model"], "ttt_length": 7}
NESTED_DSPARK: Raw = {
    **NESTED,
    "architectures": ["DSparkDraftModel"],
    "dflash_config": {
        **NESTED["dflash_config"],
        "projector_type": "dspark",
        "markov_rank": 256,
        "markov_head_type": "vanilla",
    },
}
NORMALISED: Raw = {**NESTED_DSPARK, "architectures": ["Qwen3DSparkModel"], "markov_rank": 256}
MODELOPT: Raw = {
    **NESTED,
    "dflash_config": {
        **NESTED_DSPARK["dflash_config"],
        "shift_label": True,
        "use_confidence_head": True,
    },
}
HYBRID: Raw = {**NESTED, "markov_rank": 256, "markov_head_type": "vanilla"}
DOMINO: Raw = {
    **NESTED,
    "dflash_config": {
        **NESTED["dflash_config"],
        "projector_type": "domino",
        "gru_hidden_dim": 1024,
        "emb_dim": 256,
    },
}
ANGELSPEC: Raw = {
    **BACKBONE,
    "architectures": ["DFlashDraftModel"],
    "model_type": "dflash",
    "rope_theta": 1000000.0,
    "mask_token_id": 151669,
    "target_layer_ids": IDS,
    "num_target_layers": 5,
    "target_num_hidden_layers": 36,
}
ANGELSPEC_DSPARK: Raw = {
    **ANGELSPEC,
    "architectures": ["DSparkDraftModel"],
    "model_type": "dspark",
    "markov_rank": 256,
}
DFLY: Raw = {**ANGELSPEC, "architectures": ["Qwen3DFlyModel"], "enable_hidden_correction": True}
IN_TARGET_KEYS = ("dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids")
IN_TARGET: Raw = {
    **LLAMA,
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "num_nextn_predict_layers": 3,
    "dspark_block_size": 5,
    "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [40, 41, 42],
    "dspark_markov_rank": 256,
}
OPEN_SPEC: Raw = {
    "open_spec_config_version": "0.0.0",
    "speculative_config": {"method": "dflash"},
}
MEDUSA: Raw = {"base_model_name_or_path": "x", "medusa_num_heads": 5, "medusa_num_layers": 1}
MTP: Raw = {"architectures": ["MTPDraftModel"], "model_type": "mtp", "target_hidden_size": 4096}
SPECULATORS: Raw = {
    "architectures": ["DFlashDraftModel"],
    "speculators_model_type": "dflash",
    "speculators_config": {"algorithm": "dflash"},
    "transformer_layer_config": {"model_type": "qwen3"},
}

# A file, its family and schema, then the nearest change after which it is another's.
CASES: list[tuple[Raw, str, str, Raw, str]] = [
    (NESTED | {"architectures": ["DFlash2DraftModel"]}, "dflash2", "nested",
     {"architectures": ["DFlashDraftModel"]}, "dflash (nested)"),
    (NESTED | {"selector_rank": 256}, "dflash2", "nested", {"selector_rank": None},
     "dflash (nested)"),
    (DOMINO, "domino", "nested",
     {"dflash_config": NESTED["dflash_config"]}, "dflash (nested)"),
    (NESTED | {"architectures": ["LiLiCorrDraftModel"], "conv_kernel_size": 2}, "lilicorr",
     "modelopt", {"architectures": ["DFlashDraftModel"]}, "dflash2 (nested)"),
    (NESTED_DSPARK | {"hspec_config": {"block_pattern": []}}, "hspec", "nested",
     {"hspec_config": None}, "dspark (nested)"),
    (NESTED_DSPARK | {"architectures": ["HSpecDraftModel"]}, "hspec", "nested",
     {"architectures": ["DSparkDraftModel"]}, "dspark (nested)"),
    (NESTED | {"architectures": ["DominoDraftModel"]}, "domino", "nested",
     {"architectures": ["DFlashDraftModel"]}, "dflash (nested)"),
    (NESTED_DSPARK, "dspark", "nested", {"dflash_config": GONE}, UNKNOWN),
    (NORMALISED, "dspark", "nested",
     {"dflash_config/projector_type": GONE, "dflash_config/markov_rank": 0}, "dspark (hybrid)"),
    (MODELOPT, "dspark", "modelopt",
     {"dflash_config/shift_label": False, "dflash_config/use_confidence_head": GONE},
     "dspark (nested)"),
    (HYBRID, "dspark", "hybrid", {"markov_rank": 0, "markov_head_type": GONE}, "dflash (nested)"),
    (DSPARK | {"dflash_config": {"target_layer_ids": [1]}}, "dspark", "hybrid",
     {"dflash_config": GONE}, "dspark (flat)"),
    (ANGELSPEC_DSPARK, "dspark", "angelspec", {"model_type": "qwen3"},
     "dspark (flat)"),
    (ANGELSPEC, "dflash", "angelspec", {"markov_rank": 256}, UNKNOWN),
    (FLAT | {"architectures": ["MuseGlimmerAssistantModel"]}, "dflash", "hybrid",
     {"architectures": ["Qwen3DSparkModel"]}, "dflash (flat)"),
    (DFLY, "dfly", "angelspec", {"enable_hidden_correction": False,
     "architectures": ["DFlashDraftModel"]}, "dflash (angelspec)"),
    (ANGELSPEC | {"enable_hidden_correction": True}, "dfly", "angelspec",
     {"enable_hidden_correction": None}, "dflash (angelspec)"),
    (NESTED | {"architectures": ["QwenDFlareDraftModel"]}, "dflare", "nested",
     {"architectures": ["QwenDFlashDraftModel"]}, "dflash (nested)"),
    (ANGELSPEC | {"model_arch": "dflare"}, "dflare", "angelspec",
     {"model_arch": "dflash"}, "dflash (angelspec)"),
    (NESTED | {"model_arch": "dfly"}, "dfly", "angelspec", {"model_arch": "dflash"},
     "dflash (nested)"),
    (NESTED | {"architectures": ["JetSpecDraftModel"]}, "jetspec", "nested",
     {"architectures": ["DFlashDraftModel"]}, "dflash (nested)"),
    (NESTED | OPEN_SPEC, "dflash", "open-spec", {"open_spec_config_version": None},
     "dflash (nested)"),
    (IN_TARGET, "dspark", "in-target", dict.fromkeys(IN_TARGET_KEYS), UNKNOWN),
    (NESTED | {"dflash_config": {"causal_head": True}}, "jetspec", "nested",
     {"dflash_config/causal_head": False}, "dflash (nested)"),
    (EAGLE3 | {"architectures": ["EdsdDraftModel"]}, "edsd", "flat",
     {"architectures": ["LlamaForCausalLM"]}, "eagle3 (flat)"),
    (EAGLE3, "eagle3", "flat", {"draft_vocab_size": None}, UNKNOWN),
    (DEEPSPEC_EAGLE3, "eagle3", "flat",
     {"ttt_length": GONE, "architectures": ["Qwen3Model"]}, UNKNOWN),
    (LLAMA | {"architectures": ["PEagleDraftModel"], "draft_vocab_size": 32000}, "p-eagle", "flat",
     {"architectures": ["LlamaForCausalLMEagle3"]}, "eagle3 (flat)"),
    (EAGLE3 | {"num_hidden_layers": 4, "mask_token_id": 5}, "p-eagle", "flat",
     {"num_hidden_layers": 1}, "eagle3 (flat)"),
    (MEDUSA, "medusa", "flat", {"medusa_num_heads": GONE, "medusa_num_layers": GONE}, UNKNOWN),
    ({"architectures": ["ArcticLSTMSpeculatorPreTrainedModel"], "model_type": "mlp_speculator"},
     "mlp-speculator", "flat", {"architectures": ["MLP"], "model_type": "mlp"}, UNKNOWN),
    (LLAMA | {"num_hidden_layers": 28, "hydra_num_heads": 4}, "hydra", "flat",
     {"hydra_num_heads": GONE}, "draft-model (flat)"),
    (LLAMA | {"num_hidden_layers": 28, "redrafter_num_layers": 2}, "redrafter", "flat",
     {"redrafter_num_layers": GONE}, "draft-model (flat)"),
    (MTP, "mtp", "flat", {"architectures": ["MDraftModel"], "model_type": "m"}, UNKNOWN),
    (MTP | {"draft_vocab_size": 32000}, "mtp", "flat",
     {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}, "eagle3 (flat)"),
    (LLAMA | {"model_type": "qwen3_next_mtp"}, "mtp", "flat", {"model_type": "llama"}, UNKNOWN),
    (LLAMA | {"architectures": ["EagleLlamaForCausalLM"]}, "eagle", "flat",
     {"architectures": ["Eagle2VLModel"]}, UNKNOWN),
    (LLAMA | {"architectures": ["EagleDeepSeekMTPModel"]}, "eagle", "flat",
     {"architectures": ["DeepSeekMTPModel"]}, "mtp (flat)"),
    (LLAMA | {"num_hidden_layers": 16, "pard_token": 5}, "draft-model", "flat",
     {"draft_vocab_size": 32000}, "p-eagle (flat)"),
    (LLAMA | {"num_hidden_layers": 2}, "draft-model", "flat", {"num_hidden_layers": 1}, UNKNOWN),
    (LLAMA | {"num_hidden_layers": 28}, "draft-model", "flat",
     {"num_hidden_layers": True}, UNKNOWN),
    (LLAMA | {"num_hidden_layers": 28}, "draft-model", "flat", {"causal_head": True}, UNKNOWN),
    (SPECULATORS, "dflash", "speculators", {"speculators_model_type": "recurrent"}, UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("base", "family", "schema_id", "changes", "near"), CASES)
def test_each_family_by_its_name_and_not_its_neighbour(
    base: Raw, family: str, schema_id: str, changes: Raw, near: str
) -> None:
    draft = judge(base)
    assert (draft.family, draft.schema_id, draft.served) == (family, schema_id, False)
    assert draft.candidates[f"{family} ({schema_id})"] == ""
    assert refusals(draft)[0] == "SD312"
    other = judge(base, changes)
    named = other.family if other.family == UNKNOWN else f"{other.family} ({other.schema_id})"
    assert named == near
    reason = other.candidates.get(f"{family} ({schema_id})")
    assert reason != ""


def test_every_module_with_a_family_is_in_the_registry() -> None:
    folder = Path(families.__file__).parent
    texts = {path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"}
    with_family = {name for name, text in texts.items() if "\nFAMILY = " in text}
    with_families = {name for name, text in texts.items() if "\nFAMILIES = " in text}
    assert with_family | with_families == set(families._MODULES)
    assert len(with_family) > 20


def test_every_family_that_is_not_served_has_a_case() -> None:
    tested = {(family, schema_id) for _, family, schema_id, _, _ in CASES}
    # The speculators format has a test of its own for its algorithms.
    unserved = {(f.id, f.schema_id) for f in known_families() if not f.served}
    left = {pair for pair in unserved - tested if pair[1] != "speculators"}
    assert left == {("dspine", "nested"), ("dspine", "hybrid")}


@pytest.mark.parametrize(
    ("algorithm", "family"),
    [(name, name) for name in ("dflash", "dspark", "dflash2", "eagle", "eagle3", "medusa", "mtp")]
    + [("peagle", "p-eagle")],
)
def test_speculators_format_names_the_algorithm_inside(algorithm: str, family: str) -> None:
    # The architecture says DFlash throughout, and must not decide.
    draft = judge(SPECULATORS, {"speculators_model_type": algorithm})
    assert (draft.family, draft.schema_id) == (family, "speculators")
    assert refusals(draft)[0] == "SD312"


@pytest.mark.parametrize("name", ["", "DFlash", "recurrent", 5, ["dflash"], GONE, None])
def test_speculators_format_of_no_known_algorithm_is_unknown(name: object) -> None:
    draft = judge({**SPECULATORS, **NESTED}, {"speculators_model_type": name})
    assert (draft.family, draft.reading) == (UNKNOWN, None)
    (found,) = ensure_servable(draft, "auto").findings
    assert found.rule == "SD302"
    assert "names no algorithm that is known here" in found.message
    assert found.locations[0].pointer == "/speculators_model_type"


@pytest.mark.parametrize("base", [base for base, *_ in CASES])
def test_bridge_makes_any_of_them_dspine(base: Raw) -> None:
    nested = base.get("dflash_config", {}) | {"selected_prefix_code_bridge": BRIDGE}
    draft = judge(base, {"dflash_config": nested})
    assert draft.family == "dspine"
    assert refusals(draft)[0] == "SD306"


def test_one_layer_llama_is_undecided() -> None:
    draft = judge(LLAMA)
    assert (draft.family, draft.schema_id, draft.reading) == (UNKNOWN, None, None)
    (found,) = ensure_servable(draft, "auto").findings
    assert found.rule == "SD302"
    assert "undecided between eagle and draft-model" in found.message
    assert "only the safetensors header can tell" in found.message
    assert [place.pointer for place in found.locations] == ["/architectures", "/num_hidden_layers"]
    assert "undecided" not in ensure_servable(judge({"a": 1}), "auto").findings[0].message


def test_causal_model_with_a_module_is_undecided() -> None:
    changes = {"num_hidden_layers": 61, "num_nextn_predict_layers": 1}
    (found,) = ensure_servable(judge(LLAMA, changes), "auto").findings
    assert found.rule == "SD302"
    assert "undecided between mtp and draft-model" in found.message
    assert judge(LLAMA, changes | {"num_nextn_predict_layers": 0}).family == "draft-model"
    in_target = ensure_servable(judge(LLAMA, changes | {"dspark_block_size": 5}), "auto")
    assert "dspark_block_size is 5" in in_target.findings[0].message
    assert "undecided" not in in_target.findings[0].message


@pytest.mark.parametrize("key", ["draft_vocab_size", "medusa_num_heads", "num_mtp_modules"])
@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK, ANGELSPEC])
def test_stray_key_does_not_name_a_file_that_looks_like_dflash(base: Raw, key: str) -> None:
    draft = judge(base, {key: 5})
    assert draft.family == UNKNOWN
    assert refusals(draft) == ["SD302"]
    assert key in ensure_servable(draft, "auto").findings[0].message


def test_refusal_of_a_served_family_in_another_schema_says_which_is_served() -> None:
    (found,) = ensure_servable(judge(NESTED_DSPARK), "dspark").findings
    assert found.rule == "SD312"
    assert "the draft is dspark in the nested schema" in found.message
    assert found.message.endswith("this server serves dspark only in the flat schema")
    assert 'dflash_config.projector_type is "dspark"' in found.message
    assert "/dflash_config/projector_type" in [place.pointer for place in found.locations]
    assert found.fix == (
        "use a draft of dspark in the flat schema, "
        "or a server that implements dspark in the nested schema"
    )


def test_refusal_of_another_family_says_what_is_served() -> None:
    (found,) = ensure_servable(judge(MEDUSA), "auto").findings
    assert "medusa in the flat schema (medusa_num_heads is 5" in found.message
    for served in ("dspark in the flat schema", "dflash in the flat or nested schema"):
        assert served in found.message
        assert served in found.fix


@pytest.mark.parametrize("base", [base for base, *_ in CASES])
def test_the_architecture_is_always_quoted_beside_what_decided(base: Raw) -> None:
    draft = judge(base)
    (told,) = [f for f in ensure_servable(draft, "auto").findings if f.rule in ("SD312", "SD302")]
    assert "architectures is" in told.message or len(draft.evidence) > 5
    assert "/architectures" in {place.pointer for place in told.locations}


def test_dspark_inside_a_target_is_read_by_its_own_keys() -> None:
    draft = judge(IN_TARGET)
    assert refusals(draft) == ["SD312"]
    assert draft.reading is not None
    found = draft.reading.partial
    assert (found.block_size, found.draft_tokens, found.markov_rank) == (5, 5, 256)
    assert (found.num_target_layers, found.num_hidden_layers) == (1, 3)
    assert found.target_layer_ids == (40, 41, 42)
    assert draft.reading.pointers["mask_token_id"] == "/dspark_noise_token_id"
