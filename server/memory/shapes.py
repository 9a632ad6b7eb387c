"""The shapes that common operators give, for tensors without memory.

Torch knows them too, but its own rules import its compiler on first use: more than a second, for
an answer that takes less. An operator that has no rule here is left to torch.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias

import torch
from torch import Tensor

Arguments: TypeAlias = tuple[Any, ...]
Rule: TypeAlias = Callable[[Arguments, dict[str, Any]], Tensor | None]

_ATEN = torch.ops.aten


def _meta(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _unary(args: Arguments, _: dict[str, Any]) -> Tensor | None:
    given = args[0]
    return _meta(given.shape, given.dtype) if given.is_floating_point() else None


def _binary(args: Arguments, _: dict[str, Any]) -> Tensor:
    return _meta(_broadcast(args), torch.result_type(args[0], args[1]))


def _divide(args: Arguments, given: dict[str, Any]) -> Tensor | None:
    found = _binary(args, given)
    return found if found.is_floating_point() else None


def _compare(args: Arguments, _: dict[str, Any]) -> Tensor:
    return _meta(_broadcast(args), torch.bool)


def _mean(args: Arguments, given: dict[str, Any]) -> Tensor | None:
    tensor, axes = args[0], args[1]
    keep = args[2] if len(args) > 2 else given.get("keepdim", False)
    if not keep or given.get("dtype") is not None:
        return None
    shape = list(tensor.shape)
    for axis in axes:
        shape[axis] = 1
    return _meta(shape, tensor.dtype)


def _cat(args: Arguments, given: dict[str, Any]) -> Tensor | None:
    tensors, axis = args[0], args[1] if len(args) > 1 else given.get("dim", 0)
    if len({tensor.dtype for tensor in tensors}) > 1:
        return None
    shape = list(tensors[0].shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    return _meta(shape, tensors[0].dtype)


def _stack(args: Arguments, given: dict[str, Any]) -> Tensor | None:
    tensors, axis = args[0], args[1] if len(args) > 1 else given.get("dim", 0)
    shape = list(tensors[0].shape)
    shape.insert(axis, len(tensors))
    return _meta(shape, tensors[0].dtype) if axis >= 0 else None


def _cumsum(args: Arguments, _: dict[str, Any]) -> Tensor | None:
    return _meta(args[0].shape, torch.int64) if args[0].dtype is torch.int64 else None


def _arange(args: Arguments, given: dict[str, Any]) -> Tensor:
    begin, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = given.get("dtype") or torch.int64
    return _meta((ceil((end - begin) / step),), dtype)


def _attention(args: Arguments, _: dict[str, Any]) -> Tensor:
    """What a fused kernel gives: the query's shape, stored in the query's order."""
    return torch.empty_like(args[0])


def _broadcast(args: Arguments) -> list[int]:
    """The common shape of the tensors among `args`; torch has judged that there is one."""
    shapes = [arg.shape for arg in args if isinstance(arg, Tensor)]
    width = max(map(len, shapes))
    padded = [(1,) * (width - len(shape)) + tuple(shape) for shape in shapes]
    return [max(sizes) for sizes in zip(*padded, strict=True)]


ATTENTION = _ATEN.scaled_dot_product_attention.default

RULES: Mapping[Any, Rule] = {
    **dict.fromkeys(
        (
            _ATEN.cos.default,
            _ATEN.sin.default,
            _ATEN.reciprocal.default,
            _ATEN.rsqrt.default,
            _ATEN.square.default,
        ),
        _unary,
    ),
    **dict.fromkeys(
        (
            _ATEN.add.Tensor,
            _ATEN.sub.Tensor,
            _ATEN.mul.Tensor,
            _ATEN.floor_divide.default,
            _ATEN.remainder.Scalar,
            _ATEN.pow.Scalar,
        ),
        _binary,
    ),
    **dict.fromkeys((_ATEN.arange.default, _ATEN.arange.start, _ATEN.arange.start_step), _arange),
    _ATEN.div.Tensor: _divide,
    _ATEN.le.Tensor: _compare,
    _ATEN.mean.dim: _mean,
    _ATEN.cat.default: _cat,
    _ATEN.stack.default: _stack,
    _ATEN.cumsum.default: _cumsum,
    ATTENTION: _attention,
}
