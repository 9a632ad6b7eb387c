"""Rules of DSpine drafts, one per published constraint. Every DSpine draft is refused (SD306).

The rules tell in the same pass whether the file is a valid one; fault by fault.
"""

from server.findings import Rule

_SOURCE = "pegainfer-project/pegainfer pull request 1172"


def _rule(rule_id: str, name: str, summary: str, fix: str, why: str) -> Rule:
    return Rule(rule_id, name, summary, why, fix, _SOURCE)


RULES: tuple[Rule, ...] = (
    _rule(
        "SD320",
        "dspine-bridge-partial",
        "a file with DSpine keys must hold a complete selected_prefix_code_bridge",
        "restore the bridge from the training output, or remove every DSpine key",
        "half a bridge shows that the file was edited or cut; what was trained is unknown",
    ),
    _rule(
        "SD321",
        "dspine-block-causal",
        "attention inside the block is causal: draft_block_causal is true, is_causal is not false",
        "set dflash_config.draft_block_causal to true if the draft was trained that way",
        "DSpine's reference takes drafts whose block attends causally only",
    ),
    _rule(
        "SD322",
        "dspine-full-attention",
        "layer_types, where present, holds full_attention once per draft layer",
        "use a draft with full-attention layers only",
        "DSpine's reference takes drafts with full attention in every layer only",
    ),
    _rule(
        "SD323",
        "dspine-sliding-window",
        "no sliding window is in force in any spelling",
        "set use_sliding_window to false and sliding_window to null",
        "DSpine's reference refuses a draft with a window, however it is spelt",
    ),
    _rule(
        "SD324",
        "dspine-anchor-drop",
        "the layout is anchor-drop: no num_anchors and no Markov head",
        "remove num_anchors and markov_rank if they are leftovers",
        "DSpine's reference takes the anchor-drop layout only; num_anchors and a Markov head are "
        "marks of the other one",
    ),
    _rule(
        "SD325",
        "dspine-terminal",
        "the bridge's terminal stage is disabled",
        "use a draft whose bridge was trained without the terminal stage",
        "DSpine's reference takes a bridge without its terminal stage only",
    ),
    _rule(
        "SD326",
        "dspine-independent-writes",
        "the bridge writes independently",
        "use a draft whose bridge was trained with independent writes",
        "DSpine's reference takes a bridge whose writes are independent only",
    ),
    _rule(
        "SD327",
        "dspine-feature-layers",
        "feature_layers are 1-based draft layers, strictly increasing, ending with the last one",
        "restore feature_layers from the training configuration",
        "DSpine's reference checks that each feature has a draft layer of its own, and that the "
        "last layer has one",
    ),
    _rule(
        "SD328",
        "dspine-feature-probes",
        "reliability probes and next-token feature rows are off",
        "use a draft that was exported without them",
        "DSpine's reference computes neither probes nor next-token rows, and refuses a file that "
        "asks for them",
    ),
    _rule(
        "SD329",
        "dspine-bridge-rank",
        "the bridge's rank is a non-zero multiple of 128",
        "restore rank from the training configuration",
        "DSpine's reference takes ranks in steps of 128",
    ),
    _rule(
        "SD330",
        "dspine-bridge-code",
        "the bridge's code_size is a positive integer, and its eps positive and finite",
        "restore code_size and eps from the training configuration",
        "DSpine's reference takes no empty code, and an eps that is not positive divides by zero",
    ),
    _rule(
        "SD331",
        "dspine-refinement-missing",
        "the serial refinement is declared in dflash_config or as code_bridge_second_pass",
        "add selected_prefix_last_write_refine from the training configuration",
        "DSpine's reference always runs the serial refinement, and refuses a file without one",
    ),
    _rule(
        "SD332",
        "dspine-refinement-disagrees",
        "where the refinement is declared twice, mode, first_exact and head_topk are equal",
        "make both declarations equal, or keep one",
        "two declarations of one refinement that differ leave open which of them was trained",
    ),
    _rule(
        "SD333",
        "dspine-refinement-values",
        "mode is serial_table, first_exact is L - 1, head_topk a power of two from 2 to 64",
        "restore the refinement from the training configuration",
        "DSpine's reference takes a serial table of these sizes only",
    ),
    _rule(
        "SD334",
        "dspine-second-pass-closed",
        "code_bridge_second_pass holds known keys only",
        "remove the key, or use a server that knows it",
        "DSpine's reference raises on a key of the second pass that it does not know",
    ),
    _rule(
        "SD335",
        "dspine-beside-dflash2",
        "no convolution and no candidate selector stands beside a bridge",
        "use a draft of one family",
        "DSpine's reference refuses a file with the parts of DFlash2 beside a bridge",
    ),
    _rule(
        "SD336",
        "dspine-kernel-shape",
        "head_dim is 128 and hidden_size a multiple of 512, in the draft and in the target",
        "use a pair with these shapes",
        "DSpine's kernel is built for these shapes only",
    ),
)
