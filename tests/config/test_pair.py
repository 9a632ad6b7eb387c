"""Pair rules: each fires on its own fault, and on nothing that is next to it."""

from typing import Any

import pytest

from server.config.pair import Asked, judge_length, judge_pair, served_length
from server.config.records import AnchorLayout, BlockDraft, TargetConfig
from server.findings import CheckStatus, ExitCode, Outcome, Severity
from tests.config.pairs import DRAFT, TARGET, errors, make_pair, only, status


def test_matching_pair_passes_every_rule_that_applies() -> None:
    outcome = judge_pair(make_pair())
    assert outcome.findings == ()
    skips = {check.rule for check in outcome.checks if check.status is CheckStatus.SKIP}
    assert skips == {"SD208", "SD215", "SD216", "SD336"}
    passes = {check.rule for check in outcome.checks if check.status is CheckStatus.PASS}
    assert passes == {f"SD{n}" for n in (201, 202, 203, 204, 205, 207, *range(209, 215), 217)}


FIRING: tuple[tuple[str, dict[str, Any], dict[str, Any], Asked, str], ...] = (
    ("SD201", {"hidden_size": 2560}, {}, Asked(), "2560 4096"),
    ("SD202", {"num_target_layers": 40}, {}, Asked(), "40 36"),
    ("SD203", {"vocab_size": 152064}, {}, Asked(), "152064 151936"),
    ("SD204", {"max_position_embeddings": 40959}, {}, Asked(), "40959 40960"),
    ("SD204", {}, {}, Asked(max_model_len=40945), "40945 40961 40960"),
    ("SD205", {}, {"rope_theta": 5e6}, Asked(), "1000000 5000000"),
    ("SD205", {}, {"rope_theta": 1e6 + 0.0625}, Asked(), "1000000 1000000.0625"),
    ("SD207", {}, {}, Asked(dtype="float16"), "bfloat16 float16"),
    ("SD208", {}, {}, Asked(num_speculative_tokens=16), "16 15"),
    ("SD209", {"target_layer_ids": (1, 9, 17, 25, 36)}, {}, Asked(), "36"),
    ("SD209", {"target_layer_ids": (-2, 9, 17, 25, 33)}, {}, Asked(), "-2 36"),
    ("SD210", {"mask_token_id": 151936}, {}, Asked(), "151936"),
    ("SD215", {"draft_vocab_size": 151937}, {}, Asked(), "151937 151936"),
    (
        "SD216",
        {"target_model_type": "qwen3_moe"},
        {"model_types": ("qwen3",)},
        Asked(),
        '"qwen3_moe" "qwen3"',
    ),
    ("SD201", {"target_hidden_size": 2560}, {}, Asked(), "target_hidden_size 2560 4096"),
    (
        "SD209",
        {"target_layer_ids": (2, 10, 18, 26, 37), "layer_id_shift": 1},
        {},
        Asked(),
        "37 36",
    ),
    ("SD336", {"uses_dspine": True, "head_dim": 64}, {"head_dim": 64}, Asked(), "64 128"),
    (
        "SD336",
        {"uses_dspine": True, "hidden_size": 2816},
        {"hidden_size": 2816},
        Asked(),
        "2816 512",
    ),
    ("SD207", {}, {"dtype": "float16"}, Asked(), "bfloat16 float16"),
    ("SD204", {"max_position_embeddings": 16}, {}, Asked(fit_length=True), "16"),
)


@pytest.mark.parametrize(("rule", "draft", "target", "asked", "values"), FIRING)
def test_rule_fires_alone_and_says_both_values(
    rule: str, draft: dict[str, Any], target: dict[str, Any], asked: Asked, values: str
) -> None:
    outcome = judge_pair(make_pair(draft, target, asked))
    finding = only(outcome)
    assert (finding.rule, finding.severity) == (rule, Severity.ERROR)
    assert finding.exit_code is ExitCode.CONFIG
    words = finding.message.replace(",", " ").replace(";", " ").split()
    assert set(values.split()) <= set(words)
    assert not finding.message.endswith(".")
    assert status(outcome, rule) is CheckStatus.FAIL


TOLD: tuple[tuple[str, Severity, dict[str, Any], dict[str, Any], str], ...] = (
    ("SD211", Severity.NOTE, {"num_attention_heads": 24}, {}, "24 32"),
    ("SD211", Severity.NOTE, {"num_key_value_heads": 4}, {}, "4 8"),
    ("SD211", Severity.NOTE, {"head_dim": 256}, {}, "256 128"),
    ("SD212", Severity.NOTE, {"num_hidden_layers": 8}, {}, "5 8"),
    ("SD214", Severity.WARNING, {}, {"eos_token_id": (151645, 151669)}, "151669 [151645 151669]"),
    ("SD217", Severity.WARNING, {"rms_norm_eps": 1e-5}, {}, "1e-05 1e-06"),
    ("SD214", Severity.WARNING, {}, {"bos_token_id": (151669,)}, "151669"),
)


@pytest.mark.parametrize(("rule", "severity", "draft", "target", "values"), TOLD)
def test_what_is_served_and_worth_a_look_is_told(
    rule: str, severity: Severity, draft: dict[str, Any], target: dict[str, Any], values: str
) -> None:
    outcome = judge_pair(make_pair(draft, target))
    finding = only(outcome)
    assert (finding.rule, finding.severity, outcome.refused) == (rule, severity, False)
    words = finding.message.replace(",", " ").replace(";", " ").split()
    assert set(values.split()) <= set(words)


SILENT: tuple[tuple[dict[str, Any], dict[str, Any], Asked], ...] = (
    ({"max_position_embeddings": 40961}, {}, Asked()),
    ({}, {}, Asked(max_model_len=40944)),
    ({"max_position_embeddings": 32768}, {}, Asked(max_model_len=32752)),
    ({"max_position_embeddings": 40976}, {}, Asked(max_model_len=40960)),
    ({}, {"rope_theta": 1e6 + 0.03}, Asked()),
    ({"max_position_embeddings": 40959}, {}, Asked(fit_length=True)),
    ({}, {}, Asked(dtype="auto")),
    ({}, {"dtype": "float16"}, Asked(dtype="bfloat16")),
    ({}, {"dtype": "float32"}, Asked()),
    ({}, {}, Asked(dtype="float32")),
    ({}, {}, Asked(dtype="bfloat16")),
    ({"dtype": "float16"}, {}, Asked(dtype="float16")),
    ({"dtype": None}, {}, Asked(dtype="float16")),
    ({}, {}, Asked(num_speculative_tokens=15)),
    ({}, {}, Asked(num_speculative_tokens=1)),
    ({"layout": AnchorLayout.FIRST, "schema_id": "flat"}, {}, Asked(num_speculative_tokens=16)),
    ({"target_layer_ids": (-1, 9, 17, 25, 34)}, {}, Asked()),
    ({"target_layer_ids": (0, 9, 17, 25, 35), "schema_id": "flat"}, {}, Asked()),
    ({"mask_token_id": 151935}, {"eos_token_id": (151934,)}, Asked()),
    ({"rms_norm_eps": 1.00000001e-6}, {}, Asked()),
    ({"draft_vocab_size": 151936}, {}, Asked()),
    ({"target_model_type": "qwen3"}, {"model_types": ("qwen3_vl", "qwen3")}, Asked()),
    ({"target_model_type": "qwen3"}, {"model_types": ()}, Asked()),
    ({"target_hidden_size": 4096}, {}, Asked()),
    (
        {
            "target_layer_ids": (0, 36),
            "layer_id_shift": 1,
            "num_hidden_layers": 2,
            "schema_id": "x",
        },
        {},
        Asked(),
    ),
    ({"intermediate_size": 9728}, {}, Asked()),
    ({"head_dim": 64}, {"head_dim": 64}, Asked()),
    ({"hidden_size": 2816}, {"hidden_size": 2816}, Asked()),
    ({"uses_dspine": True}, {}, Asked()),
)


@pytest.mark.parametrize(("draft", "target", "asked"), SILENT)
def test_nearest_sound_pair_is_accepted(
    draft: dict[str, Any], target: dict[str, Any], asked: Asked
) -> None:
    assert judge_pair(make_pair(draft, target, asked)).findings == ()


def test_last_layer_is_a_warning_in_the_nested_schema() -> None:
    outcome = judge_pair(make_pair({"target_layer_ids": (1, 9, 17, 25, 35)}))
    finding = only(outcome)
    assert (finding.rule, finding.severity) == ("SD213", Severity.WARNING)
    assert not outcome.refused
    assert finding.locations[0].pointer == "/target_layer_ids/4"


def test_locations_hold_file_pointer_and_value_of_both_sides() -> None:
    finding = only(judge_pair(make_pair({"hidden_size": 2560})))
    found = [(place.role, place.file, place.pointer, place.value) for place in finding.locations]
    assert found == [
        ("draft", "/draft.json", "/hidden_size", 2560),
        ("target", "/target.json", "/hidden_size", 4096),
    ]


def test_setting_is_located_by_flag_and_source() -> None:
    sources = {"num_speculative_tokens": "env SERVER_NUM_SPECULATIVE_TOKENS"}
    asked = Asked(num_speculative_tokens=20, sources=sources)
    place = only(judge_pair(make_pair(asked=asked))).locations[-1]
    assert (place.flag, place.value) == ("--num-speculative-tokens", 20)
    assert place.source == sources["num_speculative_tokens"]


def test_geometry_rule_names_each_field_that_differs() -> None:
    finding = only(judge_pair(make_pair({"num_attention_heads": 24, "head_dim": 256})))
    assert "num_attention_heads is 24, head_dim is 256" in finding.message
    assert "num_key_value_heads" not in finding.message
    assert len(finding.locations) == 4


def test_every_layer_id_out_of_range_is_named() -> None:
    finding = only(judge_pair(make_pair({"target_layer_ids": (1, 9, 17, 36, 37)})))
    pointers = [place.pointer for place in finding.locations]
    assert pointers == ["/target_layer_ids/3", "/target_layer_ids/4", "/num_hidden_layers"]


def test_padding_is_named_for_close_vocabularies_only() -> None:
    near, far = ({"vocab_size": size} for size in (152064, 32000))
    assert "padding" in only(judge_pair(make_pair(near))).fix
    finding = judge_pair(make_pair(far)).findings[0]
    assert (finding.rule, "padding" in finding.fix) == ("SD203", False)


@pytest.mark.parametrize(
    ("draft_positions", "target_positions", "asked", "works"),
    [
        (40960, 262144, None, 40944),
        (32768, 40960, 40960, 32752),
        (40960, 40960, 40950, 40944),
        (60000, 40960, 59990, 40960),
    ],
)
def test_context_fix_works_when_it_is_tried(
    draft_positions: int, target_positions: int, asked: int | None, works: int
) -> None:
    def judge(length: int | None) -> Outcome:
        draft = {"max_position_embeddings": draft_positions}
        target = {"max_position_embeddings": target_positions}
        pair = make_pair(draft, target, Asked(max_model_len=length))
        return judge_pair(pair) + judge_length(pair.target, pair.asked)

    finding = judge(asked).findings[0]
    assert finding.rule == "SD204"
    assert finding.fix.startswith(f"--max-model-len {works}")
    assert judge(works).findings == ()
    assert judge(works + 1).refused


def test_draft_without_room_for_one_block() -> None:
    draft = {"max_position_embeddings": 16}
    target = {"max_position_embeddings": 8}
    for asked in (Asked(), Asked(max_model_len=1)):
        finding = only(judge_pair(make_pair(draft, target, asked)))
        assert (finding.rule, finding.fix) == ("SD204", "use a draft with more than 16 positions")
    assert judge_pair(make_pair({"max_position_embeddings": 17}, target)).findings == ()


def test_rotary_base_beyond_float32_does_not_raise() -> None:
    assert errors(judge_pair(make_pair({"rope_theta": 1e300}))) == ["SD205"]
    assert errors(judge_pair(make_pair({"rope_theta": 1e300}, {"rope_theta": 1e301}))) == []


def test_unresolved_field_skips_the_rules_that_need_it() -> None:
    pair = make_pair({"vocab_size": 1}, {"head_dim": 64}, unresolved={"head_dim": "SD105"})
    outcome = judge_pair(pair)
    reasons = {check.rule: check.reason for check in outcome.checks if check.reason}
    assert reasons["SD211"] == "waits on SD105"
    assert status(outcome, "SD203") is CheckStatus.FAIL


def test_served_length_leaves_one_block_of_draft_positions() -> None:
    draft, target = BlockDraft(**DRAFT), TargetConfig(**TARGET)
    assert served_length(None, target) == 40960
    assert served_length(draft, target) == 40944
    longer = BlockDraft(**{**DRAFT, "max_position_embeddings": 65536})
    assert served_length(longer, target) == 40960


def test_a_length_beyond_the_target_is_refused_without_a_draft_too() -> None:
    target = make_pair().target
    found = only(judge_length(target, Asked(max_model_len=40961)))
    assert found.rule == "SD506"
    assert "40961" in found.message
    assert "40960" in found.message
    assert judge_length(target, Asked(max_model_len=40960)).findings == ()
    assert judge_length(target, Asked()).checks[0].status is CheckStatus.SKIP


@pytest.mark.parametrize(("schema_id", "lowest"), [("nested", 0), ("flat", -1)])
def test_range_of_layer_ids_is_told_as_the_schema_has_it(schema_id: str, lowest: int) -> None:
    pair = make_pair({"target_layer_ids": (1, 9, 17, 25, 36), "schema_id": schema_id})
    assert f"between {lowest} and 35" in only(judge_pair(pair)).fix
