"""Rules about what this server does not serve, however valid the file is."""

from server.findings import Rule

_DFLASH = "z-lab/dflash dflash/model.py"
_QWEN3 = "huggingface/transformers src/transformers/models/qwen3"
_DSPINE = "pegainfer-project/pegainfer pull request 1172"

RULES: tuple[Rule, ...] = (
    Rule(
        "SD301",
        "method-contradicts-config",
        "--spec-method, when given, must name the family that the draft's file shows",
        "serving a file as another family uses weights for what they were not trained for",
        "drop --spec-method, or use a draft of the family that it names",
        "https://github.com/vllm-project/vllm/issues/47486",
    ),
    Rule(
        "SD302",
        "draft-family-unknown",
        "the draft's file must show of which family it is",
        "an unrecognised drafter that is served as a known one boots and proposes nothing useful",
        "use a DFlash draft (nested or flat schema) or a DSpark draft (flat schema, vanilla head)",
        "https://github.com/vllm-project/vllm/pull/51338",
    ),
    Rule(
        "SD303",
        "draft-architecture-unsupported",
        "the draft's decoder layers must be Qwen3's",
        "other decoders have other norms, attention or rotary tables under the same tensor names",
        "use a draft whose model_type is qwen3",
        "https://github.com/vllm-project/vllm/pull/53435",
    ),
    Rule(
        "SD304",
        "anchor-layout-ambiguous",
        "the file must show which positions of a block are drafts",
        "read in the wrong layout every proposal is off by one position, at next to no acceptance",
        "keep num_anchors only in flat DeepSpec files, and dflash_config only in nested ones, with "
        "mask_token_id and target_layer_ids inside it",
        "https://github.com/pegainfer-project/pegainfer/pull/468",
    ),
    Rule(
        "SD305",
        "markov-head-unsupported",
        "the Markov head must be of type vanilla",
        "gated and recurrent heads have more tensors and another formula",
        "use a draft with markov_head_type vanilla",
        "deepseek-ai/DeepSpec deepspec/modeling/dspark/markov_head.py",
    ),
    Rule(
        "SD306",
        "dspine-not-served",
        "this build does not serve DSpine drafts",
        "DSpine adds a bridge of its own inside the draft; served as plain DFlash the bridge "
        "would be dropped without a word",
        "use a plain DFlash draft for this target, or a server that implements DSpine",
        _DSPINE,
    ),
    Rule(
        "SD307",
        "sliding-attention-unsupported",
        "every layer must use full attention",
        "a layer trained with a window sees positions it never saw in training",
        "use a checkpoint without sliding layers",
        "NVIDIA/Model-Optimizer modelopt/torch/export/plugins/hf_spec_export.py",
    ),
    Rule(
        "SD308",
        "rope-scaling-unsupported",
        "rotary positions must be of the default type",
        "scaled rotary tables give other angles from the first token on",
        "use a checkpoint without rope scaling",
        "huggingface/transformers src/transformers/modeling_rope_utils.py",
    ),
    Rule(
        "SD309",
        "quantised-unsupported",
        "weights must be bfloat16, float16 or float32 without a quantisation",
        "quantised tensors need scales and kernels that this server does not have",
        "use the unquantised checkpoint",
        "huggingface/transformers src/transformers/utils/quantization_config.py",
    ),
    Rule(
        "SD310",
        "target-architecture-unsupported",
        "the target must be a dense Qwen3 model (Qwen3ForCausalLM)",
        "another architecture has other tensors and another forward",
        "serve a dense Qwen3 target",
        f"{_QWEN3}/modeling_qwen3.py",
    ),
    Rule(
        "SD311",
        "arithmetic-unsupported",
        "a key that changes the arithmetic must have the value that this server computes",
        "the forward would run, and give other numbers than the ones that were trained",
        "use a checkpoint with the value named in the message",
        f"{_QWEN3}/configuration_qwen3.py; {_DFLASH}",
    ),
    Rule(
        id="SD312",
        name="draft-family-not-served",
        summary="the draft's family is one that this server serves, in a schema that it serves",
        why="another family's heads and layout are computed otherwise; served as a neighbour its "
        "drafts would be rejected without a word",
        fix="use a draft of a family that is served",
        source="https://github.com/vllm-project/vllm/pull/53435",
    ),
)
