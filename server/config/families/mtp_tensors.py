"""What an MTP draft states, and the tensors of its module in the layouts that are public.

Sources: Tencent/AngelSpec angelspec/models/draft/mtp.py, XiaomiMiMo MiMo-7B's
model.safetensors.index.json, vllm-project/speculators
src/speculators/models/mtp/model_definitions.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from server.config.families.block import shipped_embedding, shipped_tables
from server.config.layers import SIZES, DecoderKind, Layer, attention, gated_mlp, whole
from server.config.records import BlockDraft, Count
from server.config.tensors import ExpectedTensor, expect

_FUSED = "2*hidden_size"
MTP_NEEDS = (
    *(*SIZES, "module", "target_hidden_size", "attention_bias", "qk_norm", "num_experts"),
    *("moe_intermediate_size", "num_shared_experts", "moe_router_enable_expert_bias"),
)


class MtpDraft(BlockDraft):
    """A module of `num_hidden_layers` layers. Defaults are those of AngelSpec's MTPConfig.

    `module` says how its tensors are written.
    """

    module: Literal["angelspec-dense", "angelspec-moe", "mimo", "speculators"]
    attention_bias: bool = False
    qk_norm: bool = True
    num_experts: Count = 192
    moe_intermediate_size: Count = 1536
    num_shared_experts: Annotated[int, Field(ge=0, le=2**16)] = 1
    moe_router_enable_expert_bias: bool = True


def mtp_tensors(module: MtpDraft) -> Iterator[ExpectedTensor]:
    """The module: a projection [H, 2H] of token and hidden state, norms, one decoder layer."""
    if module.module.startswith("angelspec"):
        yield from _angelspec(module)
        return
    mimo = module.module == "mimo"
    for i in range(module.num_hidden_layers):
        yield from _in_one_layer(module, f"model.mtp_layers.{i}." if mimo else f"mtp_layers.{i}.")
    if not mimo:
        yield from shipped_tables(module)


def _in_one_layer(module: MtpDraft, name: str) -> Iterator[ExpectedTensor]:
    """MiMo's layout, which speculators has taken over: all in one layer."""
    for part in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        yield expect(module, f"{name}{part}.weight", "hidden_size")
    yield expect(module, f"{name}input_proj.weight", "hidden_size", _FUSED)
    kind: DecoderKind = "qwen2" if module.module == "mimo" else "qwen3"
    yield from whole(Layer(module, name, kind))


def _angelspec(module: MtpDraft) -> Iterator[ExpectedTensor]:
    for part in ("enorm", "hnorm", "final_layernorm"):
        yield expect(module, f"{part}.weight", "hidden_size")
    yield expect(module, "eh_proj.weight", "hidden_size", _FUSED)
    if module.target_hidden_size not in (None, module.hidden_size):
        yield expect(module, "hidden_proj.weight", "hidden_size", "target_hidden_size")
    kind: DecoderKind = "qwen3" if module.qk_norm else "llama"
    yield from attention(Layer(module, "midlayer.", kind))
    for part in ("input_layernorm", "post_attention_layernorm"):
        yield expect(module, f"midlayer.{part}.weight", "hidden_size")
    if module.module == "angelspec-dense":
        yield from gated_mlp(module, "midlayer.mlp.", "intermediate_size")
    else:
        yield from _experts(module, "midlayer.mlp.")
    # The head is the target's and never saved; the embedding is, frozen.
    yield shipped_embedding(module)


def _experts(module: MtpDraft, name: str) -> Iterator[ExpectedTensor]:
    """The experts side by side, [experts, in, out]; the router stays in 32 bits."""
    inner = "moe_intermediate_size"
    for part in ("gate", "up"):
        yield expect(module, f"{name}experts_{part}_proj", "num_experts", "hidden_size", inner)
    yield expect(module, f"{name}experts_down_proj", "num_experts", inner, "hidden_size")
    router = expect(module, f"{name}router.gate.weight", "num_experts", "hidden_size")
    yield replace(router, loaded=False)
    if module.moe_router_enable_expert_bias:
        yield expect(module, f"{name}expert_bias", "num_experts", loaded=False)
    if module.num_shared_experts:
        yield from gated_mlp(module, f"{name}shared_mlp.", f"{inner}*num_shared_experts")
