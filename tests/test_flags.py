"""The table of flags agrees with itself and with `Options`."""

from dataclasses import fields

import pytest

from server.cli_foreign import FOREIGN, FOREIGN_SWITCHES
from server.flags import BY_FIELD, BY_SPELLING, BY_VARIABLE, FLAGS, OTHER_VARIABLES, Flag
from server.options import Options


def test_every_option_has_a_flag_and_every_flag_an_option() -> None:
    options = {f.name for f in fields(Options)} - {"sources", "auto_max_model_len"}
    assert {flag.field for flag in FLAGS if flag.env} == options


def test_no_two_flags_share_a_spelling() -> None:
    spellings = [spelling for flag in FLAGS for spelling in flag.spellings]
    assert len(spellings) == len(set(spellings)) == len(BY_SPELLING)


def test_no_flag_of_another_engine_is_an_alias() -> None:
    assert not FOREIGN.keys() & BY_SPELLING.keys()
    assert set(FOREIGN_SWITCHES) <= FOREIGN.keys()


def test_variables_are_named_after_flags() -> None:
    assert BY_VARIABLE["SERVER_KV_BLOCK_SIZE"].name == "--kv-block-size"
    assert "SERVER_HELP" not in BY_VARIABLE
    assert not set(OTHER_VARIABLES) & BY_VARIABLE.keys()


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_the_example_of_a_flag_is_a_value_of_it(flag: Flag) -> None:
    flag.read(flag.example)
    assert flag.example in ("1",) or not flag.is_switch


@pytest.mark.parametrize(
    ("field", "spellings"),
    [
        ("target", {"--target", "--model", "--model-path"}),
        (
            "draft",
            {"--draft", "--draft-model", "--spec-model", "--speculative-draft-model-path"},
        ),
        ("num_speculative_tokens", {"--num-speculative-tokens", "--spec-tokens"}),
        ("max_model_len", {"--max-model-len", "--context-length"}),
        ("kv_block_size", {"--kv-block-size", "--block-size", "--page-size"}),
        ("kv_cache_dtype", {"--kv-cache-dtype"}),
        (
            "draft_kv_cache_dtype",
            {"--draft-kv-cache-dtype", "--speculative-draft-kv-cache-dtype"},
        ),
        ("max_num_seqs", {"--max-num-seqs", "--max-running-requests"}),
        ("max_num_batched_tokens", {"--max-num-batched-tokens", "--chunked-prefill-size"}),
        ("strict", {"--strict", "--no-strict"}),
        ("help", {"--help", "-h"}),
    ],
)
def test_the_names_that_other_engines_use(field: str, spellings: set[str]) -> None:
    assert set(BY_FIELD[field].spellings) == spellings
