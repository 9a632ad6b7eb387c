"""Building a model without memory, then giving its weights their final place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from server.config.records import BlockDraft, TargetConfig
from server.model.dflash import BlockDrafter
from server.model.parallel import ONE_RANK, Group
from server.model.qwen3 import Qwen3Target


def build_target(config: TargetConfig, group: Group = ONE_RANK) -> Qwen3Target:
    """This rank's part of the target on the meta device: names and shapes, no memory."""
    with torch.device("meta"):
        return Qwen3Target(config, group)


def build_drafter(
    draft: BlockDraft, target_hidden_size: int, group: Group = ONE_RANK
) -> BlockDrafter:
    """This rank's part of the drafter on the meta device: names and shapes, no memory."""
    with torch.device("meta"):
        return BlockDrafter(draft, target_hidden_size, group)


def materialise(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give every weight of a meta module uninitialised memory on `device`, in `dtype`.

    Raises torch's out-of-memory error when the device has no room. Module.to_empty would do the
    same, but on a meta module it imports torch's symbolic shapes: half a second and 34 MB.
    """
    for part in list(module.modules()):
        for name, weight in list(part.named_parameters(recurse=False)):
            memory = torch.empty(tuple(weight.shape), dtype=dtype, device=device)
            part.register_parameter(name, nn.Parameter(memory, requires_grad=False))
    module.eval()


def install(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make `tensors` (name to tensor, of the right shapes) the weights of a meta module."""
    for prefix, part in list(module.named_modules()):
        for name, _ in list(part.named_parameters(recurse=False)):
            tensor = tensors[f"{prefix}.{name}" if prefix else name]
            part.register_parameter(name, nn.Parameter(tensor, requires_grad=False))
    module.eval()


def final_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Checkpoint name to the tensor that the loader must fill, for every weight."""
    return {name: weight.detach() for name, weight in module.named_parameters()}
