"""Rules 2xx: a draft and a target that must fit each other. Text only."""

from server.findings import Rule, Severity

_PEGAINFER = "pegainfer-project/pegainfer pegainfer-qwen3/src/dflash/loading.rs"

RULES: tuple[Rule, ...] = (
    Rule(
        id="SD201",
        name="hidden-size-mismatch",
        summary="the draft's hidden_size equals the target's",
        why="the draft reads the target's hidden states and borrows its embedding and head, whose "
        "width is the target's hidden_size; another width is a matrix of the wrong shape",
        fix="use a draft trained for this target, or the target that this draft was trained for",
        source=f"{_PEGAINFER}; https://github.com/vllm-project/vllm/issues/18906",
    ),
    Rule(
        id="SD202",
        name="target-depth-mismatch",
        summary="the draft's num_target_layers equals the target's num_hidden_layers",
        why="the draft was trained on the hidden states of a target of another depth, so its layer "
        "ids name other layers here; such a draft runs and is hardly ever accepted",
        fix="use a draft trained for this target, or the target that this draft was trained for",
        source=_PEGAINFER,
    ),
    Rule(
        id="SD203",
        name="vocab-size-mismatch",
        summary="the draft's vocab_size equals the target's",
        why="the draft proposes tokens with the target's head and this server maps no vocabulary; "
        "ids of another vocabulary mean other tokens, which is served wrongly without an error",
        fix="use a draft trained for this target, or the target that this draft was trained for",
        source="https://github.com/vllm-project/vllm/pull/46435; "
        f"https://github.com/vllm-project/vllm-ascend/issues/11374; {_PEGAINFER}",
    ),
    Rule(
        id="SD204",
        name="draft-context-too-short",
        summary="the draft's positions cover the served length and one block beyond it; with no "
        "--max-model-len they are at least the target's",
        why="a request that grows past the draft's positions would take rotary angles that the "
        "draft was never trained on, or index outside its table and end the engine",
        fix="set --max-model-len to at most the draft's max_position_embeddings minus its "
        "block_size, or use a draft with more positions",
        source="https://github.com/vllm-project/vllm/issues/57941; "
        "https://github.com/vllm-project/vllm/issues/48894; "
        "pegainfer-project/pegainfer pegainfer-qwen3/src/executor.rs",
    ),
    Rule(
        id="SD205",
        name="rope-theta-mismatch",
        summary="the draft's rope_theta equals the target's, compared as 32-bit floats",
        why="a different rotary base is the mark of a draft made for another release of the same "
        "geometry (Qwen3-4B and Qwen3-4B-2507); it loads and proposes tokens that are rejected",
        fix="use a draft trained for this release of the target",
        source=_PEGAINFER,
    ),
    Rule(
        id="SD207",
        name="draft-dtype-under-compute-dtype",
        summary="a bfloat16 draft is not computed in float16",
        why="a bfloat16 draft cast to float16 was seen to have none of its tokens accepted, while "
        "the engine kept running and said nothing",
        fix="--dtype bfloat16",
        source="https://github.com/vllm-project/vllm/issues/55250; "
        "https://github.com/InternLM/lmdeploy/pull/4991",
    ),
    Rule(
        id="SD208",
        name="draft-tokens-exceed-trained-block",
        summary="--num-speculative-tokens is at most what one block of the draft proposes; fewer "
        "is fine",
        why="positions past the trained block were never trained and are hardly ever accepted, "
        "while each of them costs a verified row",
        fix="lower --num-speculative-tokens to the draft's block, or leave it out",
        source="https://github.com/vllm-project/vllm/pull/41834; "
        "https://github.com/vllm-project/vllm/issues/50012 (fewer must stay allowed)",
    ),
    Rule(
        id="SD209",
        name="layer-id-out-of-range",
        summary="each of the draft's target_layer_ids is -1 (the embedding's output) or names a "
        "layer of the target, counted from 0",
        why="a captured layer that the target does not have can only be found out in the first "
        "forward, after all weights are loaded; ids are often counted from 1 by mistake",
        fix="use a draft trained for this target; ids count layer outputs from 0",
        source="https://github.com/vllm-project/vllm/pull/42704; "
        "deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py (-1 is legal)",
    ),
    Rule(
        id="SD210",
        name="mask-id-out-of-range",
        summary="the draft's mask_token_id is below the target's vocab_size",
        why="the mask token is looked up in the target's embedding, which has no such row",
        fix="use a draft trained for this target",
        source=_PEGAINFER,
    ),
    Rule(
        id="SD211",
        name="attention-geometry-mismatch",
        summary="a draft whose num_attention_heads, num_key_value_heads or head_dim are not the "
        "target's is told",
        why="some servers refuse such a draft, for a limit of their own loaders; this one gives "
        "the draft a KV cache of its own shape, so it is served, and worth a look when few of its "
        "tokens are accepted",
        fix="nothing has to be done when the draft was trained for this target",
        source=f"{_PEGAINFER}; z-lab/Qwen3.8-27B-DFlash2 is a public draft that differs",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD212",
        name="captured-count-differs",
        summary="a draft that captures more or fewer target layers than it has layers is told",
        why="some servers ask for one captured layer per draft layer; here the width of fc.weight "
        "follows the captured layers alone, so that 5 for 8, say, is served",
        fix="nothing has to be done when fc.weight has the width that target_layer_ids implies",
        source=f"{_PEGAINFER}; z-lab/Qwen3.5-35B-A3B-DFlash is a public draft that differs",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD213",
        name="last-layer-captured",
        summary="a draft of the nested schema does not capture the target's last layer",
        why="the reference of this schema takes the last entry of the target's hidden states, "
        "which is after the final norm, while this server captures the layer's own output; if the "
        "draft was trained on the former, fewer of its tokens are accepted",
        fix="compare the acceptance length with the one its trainer reports",
        source="z-lab/dflash dflash/model.py; transformers Qwen3Model (hidden_states)",
        severity=Severity.WARNING,
    ),
    Rule(
        id="SD214",
        name="mask-id-is-special-token",
        summary="the draft's mask_token_id is neither an end nor a begin token of the target",
        why="a position that holds such a token looks like one that is still to be drafted; text "
        "around it is drafted badly",
        fix="compare mask_token_id with the one its trainer added to the tokenizer",
        source="z-lab/dflash dflash/model.py (the mask token is one that no text holds)",
        severity=Severity.WARNING,
    ),
    Rule(
        id="SD215",
        name="draft-vocabulary-larger",
        summary="a draft with a head of its own has at most as many rows as the target's "
        "vocabulary",
        why="a reduced vocabulary is mapped to the target's ids row by row; a row beyond the "
        "target's last id proposes a token that does not exist",
        fix="use a draft trained for this target",
        source="pegainfer-project/pegainfer pegainfer-qwen3/src/eagle3/loading.rs",
    ),
    Rule(
        id="SD216",
        name="target-model-type-mismatch",
        summary="the target_model_type that a draft states is the target's model_type",
        why="the trainer wrote down for which kind of model the draft was made; a model of another "
        "kind has other hidden states, even where all sizes agree",
        fix="use a draft trained for this target",
        source="sgl-project/SpecForge configs/gemma3-1b-eagle3.json; "
        "Tencent/AngelSlim configs (target_model_type)",
    ),
    Rule(
        id="SD217",
        name="norm-epsilon-differs",
        summary="the draft's rms_norm_eps is the target's, compared as 32-bit floats",
        why="trainers copy it from the target; another value was edited, or is that of another "
        "model, and shifts every norm a little",
        fix="compare rms_norm_eps with the training configuration",
        source="deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py (a copy of the "
        "target's config)",
        severity=Severity.WARNING,
    ),
)
