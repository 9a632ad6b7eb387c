"""What the drafters of AngelSpec share: where a file states a draft, and its tensors.

Every key stands at the top level. num_target_layers counts the captured layers there; the depth
of the target is target_num_hidden_layers. Block size and anchor layout are arguments of the
training run, which no file has to state. Sources: Tencent/AngelSpec
angelspec/models/draft/dflash.py (tensors, default of head_dim), angelspec/config, and
tools/convert_to_hf.py (the file is the training config and a draft_vocab_size).
"""

from collections.abc import Iterator

from server.config.checks import Check
from server.config.families.block import shipped_embedding
from server.config.families.common import Subject, pick_draft
from server.config.families.model import Claim, DraftFile
from server.config.families.named import equals
from server.config.fields import Picked, given, pick_one
from server.config.layers import qwen3_layers
from server.config.records import BlockDraft
from server.config.rules import finding
from server.config.tensors import FC_COLUMNS, ExpectedTensor, expect
from server.config.values import same, shorten
from server.findings import Finding

REQUIRED = ("mask_token_id", "target_layer_ids")
_FACTS = ("mask_token_id", "target_layer_ids", "block_size")


def claim_angelspec(file: DraftFile, architecture: str, model_type: str) -> Claim:
    """That architecture with that model_type, and no dflash_config."""
    own = equals(file.top("model_type"), model_type)
    if file.architecture != architecture or not own:
        names, kind = (shorten(file.raw.get(key)) for key in ("architectures", "model_type"))
        return Claim(reason=f"architectures is {names} with model_type {kind}")
    if file.raw.get("dflash_config") is not None:
        return Claim(reason="there is a dflash_config")
    return Claim((file.top("architectures"), *own))


def pick_angelspec(file: DraftFile, *own: str) -> dict[str, Picked]:
    """The fields of a block draft, and a family's `own`. No layout."""
    picked = pick_draft(file) | {name: file.top(name) for name in ("draft_vocab_size", *own)}
    for name in _FACTS:
        picked[name] = pick_one(name, file.source, file.top(name), file.inner(name))
    picked["num_target_layers"] = file.top("target_num_hidden_layers")
    picked["head_dim"] = _head_dim(file)
    return picked


def _head_dim(file: DraftFile) -> Picked:
    stated = file.top("head_dim")
    hidden, heads = file.raw.get("hidden_size"), file.raw.get("num_attention_heads")
    if stated.present or type(hidden) is not int or type(heads) is not int:
        return stated
    return given(hidden // heads) if 0 < heads <= hidden else stated


def _counted(subject: Subject) -> Iterator[Finding]:
    file, ids = subject.file, subject.reading.partial.target_layer_ids
    count = file.top("num_target_layers")
    if count.value is not None and not same(count.value, len(ids)):
        message = (
            f"draft num_target_layers is {count.shown}, target_layer_ids has {len(ids)} entries; "
            "both count the captured layers"
        )
        where = file.source.at(subject.reading.pointers["target_layer_ids"], list(ids))
        yield finding("SD110", message, file.at(count), where)


ANGELSPEC_CHECKS = (Check("SD110", ("target_layer_ids",), _counted),)


def context_projection(draft: BlockDraft) -> ExpectedTensor:
    """context_proj.weight [H, captured * H_target], which takes all captured layers at once."""
    return expect(draft, "context_proj.weight", "hidden_size", FC_COLUMNS)


def angelspec_tensors(draft: BlockDraft) -> Iterator[ExpectedTensor]:
    """Norms and decoder layers, and the target's embedding, a frozen copy."""
    yield expect(draft, "context_norm.weight", "hidden_size")
    yield from qwen3_layers(draft)
    yield expect(draft, "final_norm.weight", "hidden_size")
    yield shipped_embedding(draft)


def correction_tensors(
    draft: BlockDraft, width: str = "hidden_size", needed: bool = False
) -> Iterator[ExpectedTensor]:
    """The hidden correction: two norms and a gated block of `width` over state and embedding."""
    name = "hidden_correction"
    for norm in ("hidden_norm", "embed_norm"):
        yield expect(draft, f"{name}.{norm}.weight", "hidden_size", needed=needed)
    for side in ("gate_proj", "up_proj"):
        yield expect(draft, f"{name}.{side}.weight", width, "2*hidden_size", needed=needed)
    yield expect(draft, f"{name}.down_proj.weight", "hidden_size", width, needed=needed)
