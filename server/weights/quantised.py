"""Which quantised layout a checkpoint's tensor names belong to, so that a refusal can name it.

Sources of the names: ModelOpt/Model-Optimizer modelopt/torch/export/quant_utils.py (weight_scale,
weight_scale_2, input_scale); vllm-project/compressed-tensors src/compressed_tensors/compressors;
openai/gpt-oss gpt_oss/torch/weights.py (blocks, scales); AutoGPTQ/AutoGPTQ and
casper-hansen/AutoAWQ (qweight, qzeros, scales); bitsandbytes-foundation/bitsandbytes
bitsandbytes/functional.py (QuantState); deepseek-ai/DeepSeek-V3 README_WEIGHTS.md
(weight_scale_inv); turboderp-org/exllamav2 and exllamav3; ml-explore/mlx-lm.
"""

from collections.abc import Iterable

QUANTISED_FIX = "use the unquantised checkpoint, stored in BF16, F16 or F32"

# Endings of names, the layout that has all of them, the most telling first.
_LAYOUTS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((".weight_scale_2",), "NVFP4 weights as ModelOpt writes them"),
    ((".weight_packed", ".weight_global_scale"), "NVFP4 weights as compressed-tensors packs them"),
    ((".weight_packed",), "weights packed by compressed-tensors"),
    (("_blocks", "_scales"), "MXFP4 weights (blocks and scales)"),
    ((".qweight", ".g_idx"), "GPTQ weights"),
    ((".qweight", ".qzeros"), "AWQ or GPTQ weights"),
    ((".absmax",), "bitsandbytes 4-bit weights"),
    ((".SCB",), "bitsandbytes 8-bit weights"),
    ((".weight_scale_inv",), "FP8 weights scaled by the block"),
    ((".weight_scale",), "FP8 or INT8 weights with a scale for each"),
    ((".q_weight", ".q_scale"), "EXL2 weights"),
    ((".trellis",), "EXL3 weights"),
    ((".scales", ".biases"), "MLX quantised weights"),
    ((".input_scale",), "FP8 weights with scaled activations"),
)


def layout_of(names: Iterable[str]) -> str | None:
    """The quantised layout that these tensors are of, in words; None when they are of none."""
    endings = {_ending(name) for name in names}
    endings |= {f"_{ending.rsplit('_', 1)[-1]}" for ending in endings if "_" in ending}
    return next((words for marks, words in _LAYOUTS if endings.issuperset(marks)), None)


def _ending(name: str) -> str:
    return f".{name.rsplit('.', 1)[-1]}"
