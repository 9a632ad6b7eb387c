"""Keys that whoever saved a served draft left in it: harmless ones are not told, others are."""

import pytest

from tests.config.drafts import DSPARK, FLAT, NESTED, Raw, judge, rules_of
from tests.config.families.eagle_relatives import with_target

# What to_dict of transformers 4 holds beside the fields of the model, and unsloth's marks.
DUMP: Raw = {
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), False),
    **dict.fromkeys(("use_bfloat16", "tf_legacy_loss", "tie_encoder_decoder"), False),
    **{"pruned_heads": {}, "min_length": 0, "max_length": 20, "do_sample": False, "num_beams": 1},
    **{"early_stopping": False, "num_beam_groups": 1, "diversity_penalty": 0.0, "top_k": 50},
    **{"temperature": 1.0, "top_p": 1.0, "typical_p": 1.0, "repetition_penalty": 1.0},
    **{"length_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0},
    **{"num_return_sequences": 1, "output_scores": False, "return_dict_in_generate": False},
    **{"remove_invalid_values": False, "unsloth_fixed": True, "unsloth_version": "2025.9"},
    **dict.fromkeys(("cross_attention_hidden_size", "decoder_start_token_id", "prefix")),
    **dict.fromkeys(("finetuning_task", "task_specific_params", "bad_words_ids")),
}


@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK])
def test_a_whole_dump_of_transformers_4_is_harmless_even_when_strict(base: Raw) -> None:
    assert rules_of(judge(base, DUMP, strict=True)) == []


@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK])
def test_a_null_states_nothing_at_the_top_level(base: Raw) -> None:
    assert rules_of(judge(base, {"default_theta": None}, strict=True)) == []
    assert rules_of(judge(base, {"default_theta": 1.0})) == ["SD111"]


@pytest.mark.parametrize("key", ["has_own_embed_tokens", "has_own_lm_head"])
@pytest.mark.parametrize("base", [NESTED, FLAT, DSPARK])
def test_a_table_of_its_own_is_not_served(base: Raw, key: str) -> None:
    assert rules_of(judge(base, {key: True})) == ["SD311"]
    assert rules_of(judge(base, {key: False})) == []


@pytest.mark.parametrize("key", ["eos_token_id", "bos_token_id"])
def test_a_mask_that_is_a_special_token_is_told_once(key: str) -> None:
    draft = judge(NESTED, {key: 151669})
    assert rules_of(draft) == ["SD118"]
    for target, rules in ((151669, []), (151645, [])):
        pair = with_target(draft, **{key: (target,)})
        assert [found.rule for found in pair.findings] == rules
    other = "bos_token_id" if key == "eos_token_id" else "eos_token_id"
    pair = with_target(draft, **{other: (151669,)})
    assert [found.rule for found in pair.findings] == ["SD214"]


@pytest.mark.parametrize(
    ("base", "changes", "rules"),
    [
        (FLAT, {"markov_rank": None, "enable_confidence_head": None}, []),
        (FLAT, {"confidence_head_with_markov": None, "markov_head_type": None}, []),
        (FLAT, {"markov_rank": None, "markov_head_type": "vanilla"}, ["SD105"]),
        (DSPARK, {"enable_confidence_head": False, "confidence_head_with_markov": None}, []),
        (DSPARK, {"confidence_head_with_markov": None}, ["SD105"]),
        (NESTED, {"mask_token_id": None, "target_layer_ids": None}, []),
        (NESTED, {"dflash_config/block_size": None, "dflash_config/num_target_layers": None}, []),
        (NESTED, {"block_size": None, "dflash_config/block_size": None}, ["SD107"]),
        (NESTED, {"block_size": None}, ["SD107"]),
    ],
)
def test_a_null_stands_for_a_default_and_beside_a_value_for_nothing(
    base: Raw, changes: Raw, rules: list[str]
) -> None:
    assert rules_of(judge(base, changes)) == rules
