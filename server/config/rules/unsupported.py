"""Rules about what this server does not serve, however valid the file is."""

from server.config.rules.model import Rule

_DFLASH = "z-lab/dflash dflash/model.py"
_QWEN3 = "huggingface/transformers src/transformers/models/qwen3"
_DSPINE = "pegainfer-project/pegainfer pull request 1172"

RULES: tuple[Rule, ...] = (
    Rule(
        "SD301",
        "method-contradicts-config",
        "--spec-method, when given, must name the family that the draft's file shows.",
        "Serving a file as another family uses weights for what they were not trained for.",
        "Drop --spec-method, or use a draft of the family that it names.",
        "https://github.com/vllm-project/vllm/issues/47486",
    ),
    Rule(
        "SD302",
        "draft-family-unknown",
        "The draft's file must show a family that this server serves.",
        "An unrecognised drafter that is served as a known one boots and proposes nothing useful.",
        "Use a DFlash draft (nested or flat schema) or a DSpark draft (flat schema, vanilla head).",
        "https://github.com/vllm-project/vllm/pull/51338",
    ),
    Rule(
        "SD303",
        "draft-architecture-unsupported",
        "The draft's decoder layers must be Qwen3's.",
        "Other decoders have other norms, attention or rotary tables under the same tensor names.",
        "Use a draft whose model_type is qwen3.",
        "https://github.com/vllm-project/vllm/pull/53435",
    ),
    Rule(
        "SD304",
        "anchor-layout-ambiguous",
        "The file must show which positions of a block are drafts.",
        "Read in the wrong layout every proposal is off by one position, at next to no acceptance.",
        "Keep num_anchors only in flat DeepSpec files, and dflash_config only in nested ones.",
        "https://github.com/pegainfer-project/pegainfer/pull/468",
    ),
    Rule(
        "SD305",
        "markov-head-unsupported",
        "The Markov head must be of type vanilla.",
        "Gated and recurrent heads have more tensors and another formula.",
        "Use a draft with markov_head_type vanilla.",
        "deepseek-ai/DeepSpec deepspec/modeling/dspark/markov_head.py",
    ),
    Rule(
        "SD306",
        "dspine-not-served",
        "This build does not serve DSpine drafts.",
        "DSpine adds a bridge of its own inside the draft; served as plain DFlash the bridge "
        "would be dropped without a word.",
        "Use a plain DFlash draft for this target, or a server that implements DSpine.",
        _DSPINE,
    ),
    Rule(
        "SD307",
        "sliding-attention-unsupported",
        "Every layer must use full attention.",
        "A layer trained with a window sees positions it never saw in training.",
        "Use a checkpoint without sliding layers.",
        "NVIDIA/Model-Optimizer modelopt/torch/export/plugins/hf_spec_export.py",
    ),
    Rule(
        "SD308",
        "rope-scaling-unsupported",
        "Rotary positions must be of the default type.",
        "Scaled rotary tables give other angles from the first token on.",
        "Use a checkpoint without rope scaling.",
        "huggingface/transformers src/transformers/modeling_rope_utils.py",
    ),
    Rule(
        "SD309",
        "quantised-unsupported",
        "Weights must be bfloat16, float16 or float32 without a quantisation.",
        "Quantised tensors need scales and kernels that this server does not have.",
        "Use the unquantised checkpoint.",
        "huggingface/transformers src/transformers/utils/quantization_config.py",
    ),
    Rule(
        "SD310",
        "target-architecture-unsupported",
        "The target must be a dense Qwen3 model (Qwen3ForCausalLM).",
        "Another architecture has other tensors and another forward.",
        "Serve a dense Qwen3 target.",
        f"{_QWEN3}/modeling_qwen3.py",
    ),
    Rule(
        "SD311",
        "arithmetic-unsupported",
        "A key that changes the arithmetic must have the value that this server computes.",
        "The forward would run, and give other numbers than the ones that were trained.",
        "Use a checkpoint with the value named in the message.",
        f"{_QWEN3}/configuration_qwen3.py; {_DFLASH}",
    ),
    Rule(
        id="SD312",
        name="draft-family-not-served",
        summary="The draft's family is one that this server serves.",
        why="Another family's heads and layout are computed otherwise; served as a neighbour its "
        "drafts would be rejected without a word.",
        fix="Use a draft of a family that is served.",
        source="https://github.com/vllm-project/vllm/pull/53435",
    ),
)
