"""GPUs that `--plan` can be asked about: the total that CUDA shows of each. Standard library only.

Torch prints that total when memory runs out, rounded to hundredths of a GiB. Drivers differ by a
few hundredths; the smallest that was seen stands here, so that a plan promises no more.
"""

from collections.abc import Mapping
from types import MappingProxyType

# Hundredths of a GiB, smallest card first.
_HUNDREDTHS = {
    "a10-24g": 2198,  # A10G: vllm-project/vllm issue 9367
    "l4-24g": 2203,  # rounded, as torch prints it
    "rtx-4090-24g": 2352,  # Soul-AILab/SoulX-FlashTalk issue 5
    "v100-32g": 3174,  # liucongg/ChatGLM-Finetuning issue 73
    "a100-40g": 3939,  # rounded, as torch prints it; 39.50 in TianheWu/CoSeR issue 10
    "l40s-48g": 4440,  # L40, which has the same memory: QwenLM/Qwen3-VL issue 2097
    "h100-80g": 7910,  # rounded; 79.11 in vllm-project/vllm issue 27508
    "a100-80g": 7915,  # vllm-project/vllm issue 10533
    "h200-141g": 13972,  # rounded, as torch prints it
    "b200-180g": 17835,  # rounded, as torch prints it
}

# Name to bytes, smallest first.
CARDS: Mapping[str, int] = MappingProxyType(
    {name: hundredths * 2**30 // 100 for name, hundredths in _HUNDREDTHS.items()}
)
