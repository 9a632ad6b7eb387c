"""Every key name of DSpine, in one place.

Source: the text of pegainfer-project/pegainfer pull request 1172. Neither the checkpoint nor
the reference code is public. Names under ASSUMED are our reading where that text gives no
exact key; when the real file can be read, only this table changes.
"""

PREFIX = "selected_prefix_"
BRIDGE = "selected_prefix_code_bridge"
REFINE = "selected_prefix_last_write_refine"
SECOND_PASS = "code_bridge_second_pass"  # the one key that is read at the top level
BLOCK_CAUSAL = "draft_block_causal"
PROBES = ("selected_prefix_feature_reliability", "selected_prefix_feature_next_token_rows")
REFINED = ("mode", "first_exact", "head_topk")
DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")

# ASSUMED: inside the bridge.
RANK, CODE_SIZE, EPS, FEATURE_LAYERS = "rank", "code_size", "eps", "feature_layers"
TERMINAL = ("terminal", "terminal_enabled", "enable_terminal")
WRITE_MODE, INDEPENDENT_WRITES = "write_mode", "independent_writes"
# ASSUMED: settings of the training run, never checked.
BRIDGE_TRAINING = ("kappa",)
REFINE_TRAINING = ("version", "weight")
DECODE_MODE = "selected_prefix_decode_mode"
TRAINING_PART = "teacher"  # a selected_prefix_ key with this part is a teacher field

BRIDGE_KEYS = frozenset(
    (
        *(RANK, CODE_SIZE, EPS, FEATURE_LAYERS, WRITE_MODE, INDEPENDENT_WRITES),
        *(*TERMINAL, *BRIDGE_TRAINING),
    )
)
SECOND_PASS_KEYS = frozenset((*REFINED, *REFINE_TRAINING))
NESTED = (BRIDGE, REFINE, *PROBES, BLOCK_CAUSAL, DECODE_MODE)
# Keys of other families that a DSpine rule speaks of, so that no second rule repeats it.
TOLD_BY_OWN_RULE = (*DFLASH2, "markov_rank")


def is_dspine_key(key: str) -> bool:
    """True for a key that only DSpine has."""
    return key.startswith(PREFIX) or key == SECOND_PASS
