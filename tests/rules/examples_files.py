"""Examples of the rules about one configuration file (1xx)."""

from tests.config.checkpoints import COMMIT, OTHER
from tests.config.drafts import GONE
from tests.rules.content import Content, Fifo, Spliced, Text
from tests.rules.example import Example
from tests.rules.gate_run import DFLASH_BASE as DFLASH
from tests.rules.gate_run import TARGET_BASE as TARGET
from tests.rules.gate_run import Gate, pair, target_alone
from tests.rules.make_case import make_example


def _text(old: str, new: str) -> Gate:
    files: dict[str, Content] = {"draft.json": Spliced(DFLASH, old, new), "target.json": TARGET}
    return Gate(files, "--draft draft.json --target target.json")


def _entry(org: str, ref: str = COMMIT) -> dict[str, Content]:
    entry = f"models/models--{org}--Qwen3-8B"
    return {f"{entry}/refs/main": Text(ref), f"{entry}/snapshots/{COMMIT}/config.json": TARGET}


_IN_MODELS = "--model-dir models --target"
_FOLDER = {"models/Qwen3-8B/config.json": TARGET}
_TWO = _entry("org-a") | _entry("org-b")

EXAMPLES: tuple[Example, ...] = (
    make_example(
        "SD101",
        Gate({"target.json": TARGET}, "--target ./target.jsn"),
        Gate({"target.json": TARGET}, "--target ./target.json"),
    ),
    make_example("SD102", Gate({"target.json": Fifo()}, "--target target.json"), target_alone()),
    make_example("SD103", _text("\n}\n", "\n"), pair(DFLASH)),
    make_example(
        "SD104",
        _text('"block_size": 16', '"block_size": 16, "block_size": 16'),
        pair(DFLASH, {"dflash_config/block_size": 16}),
    ),
    make_example(
        "SD105",
        pair(DFLASH, {"block_size": GONE}),
        pair(DFLASH, {"block_size": GONE, "dflash_config/block_size": 16}),
    ),
    make_example("SD106", _text("1000000", "1e999"), _text("1000000", "1e308")),
    make_example("SD107", pair(DFLASH, {"block_size": 16.0}), pair(DFLASH)),
    make_example("SD108", pair(DFLASH, {"block_size": 1}), pair(DFLASH, {"block_size": 2})),
    make_example(
        "SD109",
        pair(DFLASH, {"dflash_config/target_layers": 36}),
        pair(DFLASH, {"dflash_config/num_target_layers": 36}),
    ),
    make_example(
        "SD110",
        pair(DFLASH, {"dflash_config/block_size": 8}),
        pair(DFLASH, {"dflash_config/block_size": 16}),
    ),
    make_example(
        "SD111",
        pair(DFLASH, {"target_layers": 36}),
        pair(DFLASH, {"target_num_hidden_layers": 36}),
    ),
    make_example(
        "SD112",
        Gate(_FOLDER, f"{_IN_MODELS} Qwen/Qwen3-9B"),
        Gate(_FOLDER, f"{_IN_MODELS} Qwen/Qwen3-8B"),
    ),
    make_example(
        "SD113", Gate(_TWO, f"{_IN_MODELS} Qwen3-8B"), Gate(_TWO, f"{_IN_MODELS} org-a/Qwen3-8B")
    ),
    make_example(
        "SD114",
        Gate(_entry("Qwen", OTHER), f"{_IN_MODELS} Qwen/Qwen3-8B"),
        Gate(_entry("Qwen"), f"{_IN_MODELS} Qwen/Qwen3-8B"),
    ),
    make_example(
        "SD115",
        pair(DFLASH, {"draft_block_causal": False}),
        pair(DFLASH, {"dflash_config/draft_block_causal": False}),
    ),
    make_example(
        "SD116",
        pair(DFLASH, {"dflash_config/target_layer_ids": [1, 9, 17, 25, 25]}),
        pair(DFLASH, {"dflash_config/target_layer_ids": [1, 9, 17, 25, 26]}),
    ),
    make_example(
        "SD117",
        pair(DFLASH, {"layer_types": ["full_attention"] * 4}),
        pair(DFLASH, {"layer_types": ["full_attention"] * 5}),
    ),
    make_example(
        "SD118",
        pair(DFLASH, {"dflash_config/mask_token_id": 151645}, {"eos_token_id": 151643}),
        pair(DFLASH, {"dflash_config/mask_token_id": 151644}, {"eos_token_id": 151643}),
    ),
    make_example(
        "SD119",
        target_alone({"num_key_value_heads": 5}),
        target_alone({"num_key_value_heads": 4}),
    ),
)
