"""Rules of DSpine drafts, one per published constraint. Every DSpine draft is refused (SD306).

The rules tell in the same pass whether the file is a valid one; fault by fault.
"""

from server.config.rules.model import Rule

_SOURCE = "pegainfer-project/pegainfer pull request 1172"
_WHY = "The reference implementation refuses such a file."


def _rule(rule_id: str, name: str, summary: str, fix: str, why: str = _WHY) -> Rule:
    return Rule(rule_id, name, summary, why, fix, _SOURCE)


RULES: tuple[Rule, ...] = (
    _rule(
        "SD320",
        "dspine-bridge-partial",
        "A file with DSpine keys must hold a complete selected_prefix_code_bridge.",
        "Restore the bridge from the training output, or remove every DSpine key.",
        "Half a bridge shows that the file was edited or cut; what was trained is unknown.",
    ),
    _rule(
        "SD321",
        "dspine-block-causal",
        "Attention inside the block is causal: draft_block_causal is true, is_causal is not false.",
        "Set dflash_config.draft_block_causal to true if the draft was trained that way.",
    ),
    _rule(
        "SD322",
        "dspine-full-attention",
        "layer_types, where present, holds full_attention once per draft layer.",
        "Use a draft with full-attention layers only.",
    ),
    _rule(
        "SD323",
        "dspine-sliding-window",
        "No sliding window is in force in any spelling.",
        "Set use_sliding_window to false and sliding_window to null.",
    ),
    _rule(
        "SD324",
        "dspine-anchor-drop",
        "The layout is anchor-drop: no num_anchors and no Markov head.",
        "Remove num_anchors and markov_rank if they are leftovers.",
    ),
    _rule(
        "SD325",
        "dspine-terminal",
        "The bridge's terminal stage is disabled.",
        "Use a draft whose bridge was trained without the terminal stage.",
    ),
    _rule(
        "SD326",
        "dspine-independent-writes",
        "The bridge writes independently.",
        "Use a draft whose bridge was trained with independent writes.",
    ),
    _rule(
        "SD327",
        "dspine-feature-layers",
        "feature_layers are 1-based draft layers, strictly increasing, ending with the last one.",
        "Restore feature_layers from the training configuration.",
    ),
    _rule(
        "SD328",
        "dspine-feature-probes",
        "Reliability probes and next-token feature rows are off.",
        "Use a draft that was exported without them.",
    ),
    _rule(
        "SD329",
        "dspine-bridge-rank",
        "The bridge's rank is a non-zero multiple of 128.",
        "Restore rank from the training configuration.",
    ),
    _rule(
        "SD330",
        "dspine-bridge-code",
        "The bridge's code_size is a positive integer, and its eps positive and finite.",
        "Restore code_size and eps from the training configuration.",
    ),
    _rule(
        "SD331",
        "dspine-refinement-missing",
        "The serial refinement is declared in dflash_config or as code_bridge_second_pass.",
        "Add selected_prefix_last_write_refine from the training configuration.",
    ),
    _rule(
        "SD332",
        "dspine-refinement-disagrees",
        "Where the refinement is declared twice, mode, first_exact and head_topk are equal.",
        "Make both declarations equal, or keep one.",
    ),
    _rule(
        "SD333",
        "dspine-refinement-values",
        "mode is serial_table, first_exact is L - 1, head_topk a power of two from 2 to 64.",
        "Restore the refinement from the training configuration.",
    ),
    _rule(
        "SD334",
        "dspine-second-pass-closed",
        "code_bridge_second_pass holds known keys only.",
        "Remove the key, or use a server that knows it.",
    ),
    _rule(
        "SD335",
        "dspine-beside-dflash2",
        "No convolution and no candidate selector stands beside a bridge.",
        "Use a draft of one family.",
    ),
    _rule(
        "SD336",
        "dspine-kernel-shape",
        "head_dim is 128 and hidden_size a multiple of 512, in the draft and in the target.",
        "Use a pair with these shapes.",
        "The reference kernel is built for these shapes only.",
    ),
)
