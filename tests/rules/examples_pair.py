"""Examples of the rules about a draft and a target together (2xx)."""

from tests.config.drafts import GONE
from tests.rules.example import Example
from tests.rules.gate_run import DFLASH_BASE as DFLASH
from tests.rules.gate_run import EAGLE3_BASE as EAGLE3
from tests.rules.gate_run import FLAT_BASE as FLAT
from tests.rules.gate_run import pair
from tests.rules.make_case import make_example

_IDS = "dflash_config/target_layer_ids"

EXAMPLES: tuple[Example, ...] = (
    make_example(
        "SD201",
        pair(DFLASH, {"hidden_size": 2560}),
        pair(DFLASH, {"hidden_size": 2560}, {"hidden_size": 2560}),
    ),
    make_example(
        "SD202",
        pair(DFLASH, {"num_target_layers": 35}),
        pair(DFLASH, {"num_target_layers": 36}),
    ),
    make_example(
        "SD203",
        pair(DFLASH, {"vocab_size": 151937}),
        pair(DFLASH, {"vocab_size": 151936}),
    ),
    make_example(
        "SD204",
        pair(DFLASH, flags="--max-model-len 40945"),
        pair(DFLASH, flags="--max-model-len 40944"),
    ),
    # 1000000.03 is 1000000 as a 32-bit float, the next one is 1000000.0625.
    make_example(
        "SD205",
        pair(DFLASH, {"rope_theta": 1000000.04}),
        pair(DFLASH, {"rope_theta": 1000000.03}),
    ),
    make_example(
        "SD207", pair(DFLASH, flags="--dtype float16"), pair(DFLASH, flags="--dtype float32")
    ),
    make_example(
        "SD208",
        pair(DFLASH, flags="--num-speculative-tokens 16"),
        pair(DFLASH, flags="--num-speculative-tokens 15"),
    ),
    make_example(
        "SD209",
        pair(FLAT, {"target_layer_ids": [1, 9, 17, 25, 36]}),
        pair(FLAT, {"target_layer_ids": [1, 9, 17, 25, 35]}),
    ),
    make_example(
        "SD210",
        pair(DFLASH, target={"vocab_size": 151669}),
        pair(DFLASH, target={"vocab_size": 151670}),
        # A mask id in the draft's own vocabulary is beyond the target's only if these differ.
        also=("SD203",),
    ),
    make_example(
        "SD211",
        pair(DFLASH, {"num_key_value_heads": 4}),
        pair(DFLASH, {"num_key_value_heads": 8}),
    ),
    make_example(
        "SD212",
        pair(DFLASH, {_IDS: [1, 9, 17, 25]}),
        pair(DFLASH, {_IDS: [1, 9, 17, 25, 33]}),
    ),
    make_example(
        "SD213",
        pair(DFLASH, {_IDS: [1, 9, 17, 25, 35]}),
        pair(DFLASH, {_IDS: [1, 9, 17, 25, 34]}),
    ),
    make_example(
        "SD214",
        pair(DFLASH, {"dflash_config/mask_token_id": 151645, "eos_token_id": GONE}),
        pair(DFLASH, {"dflash_config/mask_token_id": 151644, "eos_token_id": GONE}),
    ),
    make_example(
        "SD215",
        pair(EAGLE3, target={"vocab_size": 31999}),
        pair(EAGLE3, target={"vocab_size": 32000}),
        # A reduced vocabulary beyond the target's lies within the draft's own only if these differ;
        # and no family with a head of its own is served.
        also=("SD203", "SD312"),
    ),
    make_example(
        "SD216",
        pair(DFLASH, {"target_model_type": "qwen2"}),
        pair(DFLASH, {"target_model_type": "qwen3"}),
    ),
    make_example(
        "SD217",
        pair(DFLASH, {"rms_norm_eps": 1.000001e-06}),
        pair(DFLASH, {"rms_norm_eps": 1.00000001e-06}),
    ),
)
