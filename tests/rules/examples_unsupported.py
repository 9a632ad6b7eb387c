"""Examples of the rules about what is not served (SD301 to SD312)."""

from tests.config.drafts import GONE
from tests.rules.example import Example
from tests.rules.gate_run import DFLASH_BASE as DFLASH
from tests.rules.gate_run import DSPARK_BASE as DSPARK
from tests.rules.gate_run import DSPINE_BASE as DSPINE
from tests.rules.gate_run import FLAT_BASE as FLAT
from tests.rules.gate_run import pair, target_alone
from tests.rules.make_case import make_example

EXAMPLES: tuple[Example, ...] = (
    make_example(
        "SD301",
        pair(DFLASH, flags="--spec-method dspark"),
        pair(DFLASH, flags="--spec-method dflash"),
    ),
    make_example(
        "SD302",
        pair(DFLASH, {"architectures": GONE}),
        pair(DFLASH, {"architectures": ["DFlashDraftModel"]}),
    ),
    make_example(
        "SD303",
        pair(FLAT, {"architectures": ["Qwen3OmniDSparkModel"]}),
        pair(FLAT, {"architectures": ["Qwen3DSparkModel"]}),
    ),
    make_example("SD304", pair(FLAT, {"num_anchors": GONE}), pair(FLAT, {"num_anchors": 1})),
    make_example(
        "SD305",
        pair(DSPARK, {"markov_head_type": "gated"}),
        pair(DSPARK, {"markov_head_type": "vanilla"}),
    ),
    make_example(
        "SD306",
        pair(DSPINE),
        pair(
            DSPINE,
            {
                "dflash_config/selected_prefix_code_bridge": None,
                "dflash_config/selected_prefix_last_write_refine": None,
                "dflash_config/draft_block_causal": False,
            },
        ),
    ),
    make_example(
        "SD307",
        pair(DFLASH, {"use_sliding_window": True, "sliding_window": 4096}),
        pair(DFLASH, {"use_sliding_window": False, "sliding_window": 4096}),
    ),
    make_example(
        "SD308",
        pair(DFLASH, {"rope_scaling": {"rope_type": "yarn"}}),
        pair(DFLASH, {"rope_scaling": {"rope_type": "default"}}),
    ),
    make_example(
        "SD309",
        pair(DFLASH, target={"quantization_config": {"quant_method": "fp8"}}),
        pair(DFLASH, target={"quantization_config": None}),
    ),
    make_example(
        "SD310",
        target_alone({"architectures": ["Qwen3MoeForCausalLM"]}),
        target_alone({"architectures": ["Qwen3ForCausalLM"]}),
    ),
    make_example(
        "SD311",
        pair(DFLASH, target={"hidden_act": "gelu"}),
        pair(DFLASH, target={"hidden_act": "silu"}),
    ),
    make_example(
        "SD312",
        pair(
            DFLASH,
            {
                "dflash_config/projector_type": "domino",
                "dflash_config/gru_hidden_dim": 1024,
                "dflash_config/emb_dim": 256,
            },
        ),
        pair(DFLASH, {"dflash_config/projector_type": "dflash"}),
    ),
)
