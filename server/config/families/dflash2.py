"""DFlash2: DFlash with convolutions in each layer and a selector among candidate tokens.

Everything else in the file is a valid DFlash config. The block size stands in dflash_config;
Model-Optimizer repeats it at the top level. Sources: sgl-project/SpecForge
configs/qwen3.6-27b-dflash2.json and specforge/modeling/draft/dflash2.py (ranges, tensors),
NVIDIA/Model-Optimizer modelopt/torch/export/plugins/hf_spec_export.py, vllm-project/vllm pull
request 52816, sgl-project/sglang python/sglang/srt/speculative/dflash_utils.py (fields in pairs).
"""

from collections.abc import Iterator

from server.config.families.anchors import shown_layout
from server.config.families.block import BLOCK_NEEDS, BLOCK_REQUIRED, block_tensors
from server.config.families.common import pick_draft, pick_either
from server.config.families.dspine_names import DFLASH2
from server.config.families.form import Form, unserved
from server.config.families.model import Claim, DraftFile
from server.config.families.named import by_architecture, claim_any
from server.config.families.relations import at_most, divides, together
from server.config.fields import Picked
from server.config.records import AnchorLayout, BlockDraft, Count, Positive
from server.config.tensors import ExpectedTensor, Tensors, expect

_CONVOLUTION = ("conv_kernel_size", "conv_group_size")
_SELECTOR = ("selector_rank", "selector_top_k")
_FACTORS = ("output_multiplier", "final_logit_softcapping")
_CODEBOOKS = ("candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook")


class DFlash2Draft(BlockDraft):
    """A block draft with DFlash2's parts. Sizes are in positions, channels, elements, tokens."""

    conv_kernel_size: Count | None = None
    conv_group_size: Count | None = None
    selector_rank: Count | None = None
    selector_top_k: Count | None = None
    output_multiplier: Positive | None = None
    final_logit_softcapping: Positive | None = None


def claim(file: DraftFile) -> Claim:
    """An architecture *DFlash2*, or a key of the convolutions or of the selector."""
    places = (*by_architecture(file, "DFlash2"), *file.both(*DFLASH2))
    return claim_any(places, "architecture *DFlash2*, conv_ or selector_ key")


def _pick(file: DraftFile) -> dict[str, Picked]:
    own = pick_either(file, "block_size", *_CONVOLUTION, *_SELECTOR, *_FACTORS)
    return pick_draft(file) | own | shown_layout(file, AnchorLayout.DROP)


def dflash2_tensors(draft: DFlash2Draft) -> Iterator[ExpectedTensor]:
    """DFlash's, two convolutions in each layer [2, kernel, H], and the selector's tables."""
    yield from block_tensors(draft)
    if draft.conv_kernel_size and draft.conv_group_size:
        rows = "2*conv_kernel_size*hidden_size/conv_group_size"
        for layer in range(draft.num_hidden_layers):
            for part in ("attention_conv", "mlp_conv"):
                name, base = f"layers.{layer}.{part}", ("2", "conv_kernel_size", "hidden_size")
                yield expect(draft, f"{name}.base_kernel", *base)
                yield expect(draft, f"{name}.kernel_projection.weight", rows, "hidden_size")
    if draft.selector_rank:
        for name in _CODEBOOKS:
            yield expect(draft, name, "vocab_size", "selector_rank")
        name = "candidate_selector.hidden_projection.weight"
        yield expect(draft, name, "selector_rank", "hidden_size")


_TENSORS = Tensors(
    (*BLOCK_NEEDS, *_CONVOLUTION, "selector_rank"),
    dflash2_tensors,
    # Exports of frameworks that keep a table in a module of its own.
    aliases=tuple((f"{name}.weight", name) for name in _CODEBOOKS),
    marks=("attention_conv.", "mlp_conv.", "candidate_selector."),
)
_CHECKS = (
    together(*_CONVOLUTION),
    together(*_SELECTOR),
    at_most("conv_kernel_size", "block_size"),
    at_most("selector_top_k", "vocab_size"),
    divides("conv_group_size", "hidden_size"),
)

FAMILY = unserved(
    "dflash2", "nested", claim, Form(_pick, DFlash2Draft, BLOCK_REQUIRED, _CHECKS), _TENSORS
)
