"""Parameter names are the checkpoint's, and weights get their place once."""

import pytest
import torch

from server.model.build import (
    build_drafter,
    build_target,
    final_tensors,
    install,
    materialise,
)
from tests.model.tiny import CPU, make_draft, make_dspark, make_target_config

LAYER_SHAPES = {
    "input_layernorm.weight": (24,),
    "post_attention_layernorm.weight": (24,),
    "self_attn.q_proj.weight": (40, 24),
    "self_attn.k_proj.weight": (20, 24),
    "self_attn.v_proj.weight": (20, 24),
    "self_attn.o_proj.weight": (24, 40),
    "self_attn.q_norm.weight": (10,),
    "self_attn.k_norm.weight": (10,),
}


def mlp_shapes(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "mlp.gate_proj.weight": (width, 24),
        "mlp.up_proj.weight": (width, 24),
        "mlp.down_proj.weight": (24, width),
    }


def layer_shapes(prefix: str, layers: int, width: int) -> dict[str, tuple[int, ...]]:
    shapes = LAYER_SHAPES | mlp_shapes(width)
    return {f"{prefix}{i}.{name}": shape for i in range(layers) for name, shape in shapes.items()}


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in final_tensors(module).items()}


def test_target_names_and_shapes() -> None:
    tied = {"model.embed_tokens.weight": (61, 24), "model.norm.weight": (24,)}
    tied |= layer_shapes("model.layers.", 4, 40)
    assert shapes_of(build_target(make_target_config(tie_word_embeddings=True))) == tied
    untied = tied | {"lm_head.weight": (61, 24)}
    assert shapes_of(build_target(make_target_config())) == untied


def test_draft_names_and_shapes() -> None:
    plain = {"fc.weight": (24, 96), "hidden_norm.weight": (24,), "norm.weight": (24,)}
    plain |= layer_shapes("layers.", 3, 36)
    assert shapes_of(build_drafter(make_draft(), target_hidden_size=32)) == plain
    markov = {f"markov_head.markov_w{i}.weight": (61, 6) for i in (1, 2)}
    assert shapes_of(build_drafter(make_dspark(), target_hidden_size=32)) == plain | markov


def test_weights_are_on_meta_until_materialised() -> None:
    target = build_target(make_target_config())
    assert all(tensor.is_meta for tensor in final_tensors(target).values())
    materialise(target, CPU, torch.bfloat16)
    tensors = final_tensors(target)
    assert {t.dtype for t in tensors.values()} == {torch.bfloat16}
    assert {t.device for t in tensors.values()} == {CPU}
    assert not any(p.requires_grad for p in target.parameters())


def test_final_tensors_are_the_weights_themselves() -> None:
    target = build_target(make_target_config())
    materialise(target, CPU, torch.float32)
    final_tensors(target)["model.norm.weight"].fill_(3.0)
    assert (target.model.norm.weight == 3).all()
    assert not list(target.buffers())


def test_tensors_that_are_there_become_the_weights() -> None:
    target = build_target(make_target_config())
    shapes = shapes_of(target)
    tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
    install(target, tensors)
    tensors["model.norm.weight"].fill_(3.0)
    assert (target.model.norm.weight == 3).all()
    assert shapes_of(target) == shapes
    assert not any(p.requires_grad for p in target.parameters())
    drafter = build_drafter(make_draft(), target_hidden_size=32)
    with pytest.raises(KeyError):
        install(drafter, tensors)
