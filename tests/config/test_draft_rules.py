"""Each rule about a draft's own file: one file that breaks it, and the nearest that does not."""

import pytest

from server.config.draft import Draft
from server.config.records import AnchorLayout, BlockDraft
from server.findings import Severity
from tests.config.drafts import DSPARK, FLAT, GONE, IDS, NESTED, Raw, finding_of, judge, rules_of

SLIDING = ["sliding_attention", *["full_attention"] * 4]
YARN = {"rope_type": "yarn", "factor": 4.0}

# (base, rule, what breaks it, pointer that is named, the nearest that does not)
CASES: list[tuple[Raw, str, Raw, str, Raw]] = [
    (NESTED, "SD105", {"head_dim": GONE}, "/head_dim", {}),
    (NESTED, "SD105", {"rope_theta": GONE}, "/rope_theta", {}),
    (NESTED, "SD105", {"block_size": GONE}, "/block_size", {}),
    (NESTED, "SD105", {"num_target_layers": GONE}, "/num_target_layers", {}),
    (NESTED, "SD105", {"rms_norm_eps": GONE}, "/rms_norm_eps", {"torch_dtype": GONE}),
    (NESTED, "SD105", {"num_key_value_heads": GONE}, "/num_key_value_heads", {}),
    (NESTED, "SD105", {"model_type": GONE}, "/model_type", {}),
    (
        NESTED,
        "SD105",
        {"dflash_config/target_layer_ids": GONE},
        "/dflash_config/target_layer_ids",
        {},
    ),
    (
        NESTED,
        "SD105",
        {"dflash_config/mask_token_id": GONE},
        "/dflash_config/mask_token_id",
        {"dflash_config/mask_token_id": GONE, "mask_token_id": 151669},
    ),
    (FLAT, "SD105", {"markov_rank": GONE, "markov_head_type": "vanilla"}, "/markov_rank", {}),
    (DSPARK, "SD105", {"markov_head_type": GONE}, "/markov_head_type", {}),
    (
        DSPARK,
        "SD105",
        {"confidence_head_with_markov": GONE},
        "/confidence_head_with_markov",
        {"confidence_head_with_markov": GONE, "enable_confidence_head": False},
    ),
    (NESTED, "SD107", {"hidden_size": 4096.0}, "/hidden_size", {"rope_theta": 1000000.0}),
    (NESTED, "SD107", {"block_size": "16"}, "/block_size", {}),
    (NESTED, "SD107", {"rope_theta": None}, "/rope_theta", {"rope_scaling": None}),
    (NESTED, "SD107", {"vocab_size": None}, "/vocab_size", {"torch_dtype": None}),
    (NESTED, "SD107", {"torch_dtype": "float64"}, "/torch_dtype", {"torch_dtype": "float16"}),
    (NESTED, "SD107", {"layer_types": "full_attention"}, "/layer_types", {"layer_types": None}),
    (
        NESTED,
        "SD107",
        {"dflash_config/target_layer_ids": [1, True]},
        "/dflash_config/target_layer_ids/1",
        {"dflash_config/target_layer_ids": [1, 2]},
    ),
    (FLAT, "SD107", {"num_anchors": True}, "/num_anchors", {"num_anchors": 1}),
    (
        FLAT,
        "SD107",
        {"enable_confidence_head": 0},
        "/enable_confidence_head",
        {"markov_rank": None},
    ),
    (DSPARK, "SD107", {"markov_rank": "256"}, "/markov_rank", {"markov_rank": 1}),
    (NESTED, "SD108", {"block_size": 1}, "/block_size", {"block_size": 2}),
    (NESTED, "SD108", {"hidden_size": 0}, "/hidden_size", {}),
    (
        NESTED,
        "SD108",
        {"dflash_config/target_layer_ids": [-1, 4]},
        "/dflash_config/target_layer_ids/0",
        {"dflash_config/target_layer_ids": [0, 4]},
    ),
    (
        FLAT,
        "SD108",
        {"target_layer_ids": [-2, 4]},
        "/target_layer_ids/0",
        {"target_layer_ids": [-1, 4]},
    ),
    (
        NESTED,
        "SD108",
        {"dflash_config/mask_token_id": 151936},
        "/dflash_config/mask_token_id",
        {"dflash_config/mask_token_id": 151935},
    ),
    (
        NESTED,
        "SD108",
        {"dflash_config/mask_token_id": -1},
        "/dflash_config/mask_token_id",
        {"dflash_config/mask_token_id": 0},
    ),
    (FLAT, "SD108", {"num_anchors": 0}, "/num_anchors", {}),
    (DSPARK, "SD108", {"markov_rank": -1}, "/markov_rank", {}),
    (
        NESTED,
        "SD109",
        {"dflash_config/residual_gate": 1},
        "/dflash_config/residual_gate",
        {"dflash_config/mask_token": "<|MASK|>"},
    ),
    (
        NESTED,
        "SD110",
        {"dflash_config/block_size": 8},
        "/dflash_config/block_size",
        {"dflash_config/block_size": 16},
    ),
    (
        NESTED,
        "SD110",
        {"rope_parameters": {"rope_theta": 10000}},
        "/rope_parameters/rope_theta",
        {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}},
    ),
    (NESTED, "SD110", {"dtype": "float16"}, "/torch_dtype", {"dtype": "bfloat16"}),
    (NESTED, "SD110", {"target_layer_ids": [1]}, "/target_layer_ids", {"target_layer_ids": IDS}),
    (
        NESTED,
        "SD110",
        {"target_num_hidden_layers": 40},
        "/target_num_hidden_layers",
        {"target_num_hidden_layers": 36},
    ),
    (NESTED, "SD111", {"residual_gate": 1}, "/residual_gate", {"auto_map": {"AutoModel": "x.Y"}}),
    (
        NESTED,
        "SD116",
        {"dflash_config/target_layer_ids": [1, 9, 9]},
        "/dflash_config/target_layer_ids",
        {"dflash_config/target_layer_ids": [1, 9, 10]},
    ),
    (NESTED, "SD117", {"num_hidden_layers": 6}, "/layer_types", {"layer_types": GONE}),
    (NESTED, "SD118", {"eos_token_id": [1, 151669]}, "/eos_token_id", {"eos_token_id": [1, 2]}),
    (NESTED, "SD118", {"bos_token_id": 151669}, "/bos_token_id", {"bos_token_id": None}),
    (NESTED, "SD119", {"num_key_value_heads": 5}, "/num_key_value_heads", {}),
    (NESTED, "SD119", {"head_dim": 127}, "/head_dim", {"head_dim": 126}),
    (NESTED, "SD303", {"model_type": "llama"}, "/model_type", {}),
    (FLAT, "SD303", {"architectures": ["Gemma4DSparkModel"]}, "/architectures", {}),
    (NESTED, "SD304", {"num_anchors": 512}, "/num_anchors", {"num_anchors": None}),
    (
        NESTED,
        "SD304",
        {"dflash_config/num_anchors": 512},
        "/dflash_config/num_anchors",
        {"num_anchors": 512, "architectures": ["QwenDFlashDraftModel"]},
    ),
    (
        NESTED,
        "SD304",
        {"dflash_config/sample_from_anchor": True},
        "/dflash_config/sample_from_anchor",
        {"dflash_config/sample_from_anchor": False},
    ),
    (FLAT, "SD304", {"num_anchors": GONE}, "/num_anchors", {}),
    (
        FLAT,
        "SD304",
        {"sample_from_anchor": False},
        "/sample_from_anchor",
        {"sample_from_anchor": True},
    ),
    (DSPARK, "SD305", {"markov_head_type": "gated"}, "/markov_head_type", {}),
    (
        NESTED,
        "SD307",
        {"use_sliding_window": True, "sliding_window": 4096},
        "/use_sliding_window",
        {"use_sliding_window": False, "sliding_window": 4096},
    ),
    (NESTED, "SD307", {"layer_types": SLIDING}, "/layer_types/0", {}),
    (
        NESTED,
        "SD307",
        {"dflash_config/use_swa": True},
        "/dflash_config/use_swa",
        {"dflash_config/use_swa": False},
    ),
    (
        NESTED,
        "SD307",
        {"dflash_config/swa_window_size": 4096},
        "/dflash_config/swa_window_size",
        {"dflash_config/swa_window_size": None},
    ),
    (NESTED, "SD308", {"rope_scaling": YARN}, "/rope_scaling", {"rope_scaling": {}}),
    (
        FLAT,
        "SD308",
        {"rope_parameters/rope_type": "yarn"},
        "/rope_parameters",
        {"rope_parameters/rope_type": "default"},
    ),
    (
        NESTED,
        "SD308",
        {"rope_scaling": {"type": "default", "mrope_section": [1, 2, 3]}},
        "/rope_scaling",
        {"rope_scaling": {"type": "default"}},
    ),
    (
        NESTED,
        "SD309",
        {"quantization_config": {"quant_method": "fp8"}},
        "/quantization_config",
        {"quantization_config": None},
    ),
    (NESTED, "SD309", {"torch_dtype": "float8_e4m3fn"}, "/torch_dtype", {"torch_dtype": "float32"}),
    (NESTED, "SD311", {"hidden_act": "gelu"}, "/hidden_act", {"hidden_act": GONE}),
    (NESTED, "SD311", {"attention_bias": True}, "/attention_bias", {"attention_bias": GONE}),
    (NESTED, "SD311", {"partial_rotary_factor": 0.5}, "/partial_rotary_factor", {}),
    (
        NESTED,
        "SD311",
        {"rope_parameters": {"partial_rotary_factor": 0.5}},
        "/rope_parameters/partial_rotary_factor",
        {"partial_rotary_factor": 1.0},
    ),
    (NESTED, "SD311", {"v_head_dim": 64}, "/v_head_dim", {"v_head_dim": 128}),
    (NESTED, "SD311", {"is_causal": True}, "/is_causal", {"is_causal": False}),
    (
        NESTED,
        "SD311",
        {"dflash_config/causal": True},
        "/dflash_config/causal",
        {"dflash_config/causal": False},
    ),
    (
        NESTED,
        "SD311",
        {"dflash_config/output_multiplier": 0.2},
        "/dflash_config/output_multiplier",
        {"dflash_config/output_multiplier": 1.0},
    ),
    (
        NESTED,
        "SD311",
        {"dflash_config/final_logit_softcapping": 20.0},
        "/dflash_config/final_logit_softcapping",
        {"dflash_config/final_logit_softcapping": None},
    ),
    (
        NESTED,
        "SD311",
        {"dflash_config/use_aux_hidden_state": False},
        "/dflash_config/use_aux_hidden_state",
        {"dflash_config/use_aux_hidden_state": True},
    ),
    (NESTED, "SD311", {"target_hidden_size": 2560}, "/target_hidden_size", {}),
]


@pytest.mark.parametrize(("base", "rule", "breaks", "pointer", "_nearest"), CASES)
def test_rule_fires(base: Raw, rule: str, breaks: Raw, pointer: str, _nearest: Raw) -> None:
    draft = judge(base, breaks)
    found = [f for f in draft.outcome.findings if f.rule == rule]
    assert pointer in [place.pointer for f in found for place in f.locations], rules_of(draft)


@pytest.mark.parametrize(("base", "rule", "_breaks", "_pointer", "nearest"), CASES)
def test_nearest_file_passes(
    base: Raw, rule: str, _breaks: Raw, _pointer: str, nearest: Raw
) -> None:
    draft = judge(base, nearest)
    assert rules_of(draft) == []
    assert draft.reading is not None
    assert draft.reading.record is not None


def test_all_faults_of_a_file_are_told_in_one_pass() -> None:
    draft = judge(
        NESTED,
        {
            "head_dim": GONE,
            "vocab_size": "151936",
            "block_size": 0,
            "hidden_act": "gelu",
            "rope_scaling": YARN,
            "dflash_config/target_layer_ids": [9, 1],
            "dflash_config/unheard_of": 1,
        },
    )
    wanted = {"SD105", "SD107", "SD108", "SD109", "SD116", "SD308", "SD311"}
    assert set(rules_of(draft)) == wanted
    # The mask id cannot be compared with a vocabulary that could not be read.
    waiting = [check.reason for check in draft.outcome.checks if check.rule == "SD108"]
    assert "waits on SD107" in waiting


def test_severities() -> None:
    assert finding_of(judge(NESTED, {"odd": 1}), "SD111").severity is Severity.NOTE
    assert finding_of(judge(NESTED, {"odd": 1}, strict=True), "SD111").severity is Severity.ERROR
    assert finding_of(judge(NESTED, {"eos_token_id": 151669}), "SD118").severity is Severity.WARNING


def test_near_miss_of_a_known_key_is_suggested() -> None:
    found = finding_of(judge(NESTED, {"dflash_config/mask_token_ids": 5}), "SD109")
    assert "did you mean mask_token_id?" in found.fix
    assert "did you mean" not in finding_of(judge(NESTED, {"dflash_config/zz": 5}), "SD109").fix


def test_thousands_of_unknown_keys_are_counted() -> None:
    draft = judge(NESTED, {f"odd_{i}": i for i in range(3000)})
    assert rules_of(draft) == ["SD111"] * 30
    assert draft.outcome.findings[-1].message.endswith("and so for 2970 more keys")


@pytest.mark.parametrize(
    ("base", "changes", "layout", "drafts"),
    [
        (NESTED, {}, AnchorLayout.DROP, 15),
        (
            NESTED,
            {"architectures": ["QwenDFlashDraftModel"], "num_anchors": 512},
            AnchorLayout.DROP,
            15,
        ),
        (FLAT, {}, AnchorLayout.FIRST, 7),
        (DSPARK, {}, AnchorLayout.FIRST, 7),
    ],
)
def test_layout_follows_the_schema(
    base: Raw, changes: Raw, layout: AnchorLayout, drafts: int
) -> None:
    record = record_of(judge(base, changes))
    assert record.layout is layout
    assert record.draft_tokens == drafts


def record_of(draft: Draft) -> BlockDraft:
    assert draft.reading is not None
    assert draft.reading.record is not None
    return draft.reading.record


def test_records_hold_what_the_file_says() -> None:
    nested = record_of(judge(NESTED))
    assert (nested.family, nested.schema_id, nested.uses_dspine) == ("dflash", "nested", False)
    assert nested.target_layer_ids == tuple(IDS)
    assert nested.markov_rank == 0
    dspark = record_of(judge(DSPARK))
    assert (dspark.family, dspark.schema_id) == ("dspark", "flat")
    assert (dspark.markov_rank, dspark.markov_head_type) == (256, "vanilla")
    assert dspark.enable_confidence_head
    assert dspark.confidence_head_with_markov


def test_nested_block_size_alone_is_read() -> None:
    draft = judge(NESTED, {"block_size": GONE, "dflash_config/block_size": 8})
    assert record_of(draft).block_size == 8
    assert draft.reading is not None
    assert draft.reading.pointers["block_size"] == "/dflash_config/block_size"
