"""Tensors against a config: each fault and its nearest good neighbour; bytes of a plan."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from server.config.records import Backbone
from server.config.tensors import ExpectedTensor
from server.findings import Outcome, Severity
from server.weights.index import read_inventory
from server.weights.judge import judge_tensors
from server.weights.layout import draft_layout, target_layout
from server.weights.load_plan import LoadPlan, resident_bytes
from tests.weights.make import (
    DRAFT_4B,
    DSPARK,
    QWEN3_8B,
    make_draft,
    make_reading,
    make_target,
    make_tensors,
    rules_of,
    status_of,
    write_sharded,
    write_single,
    write_sparse,
)

Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


def judge(
    folder: Path, layout: Sequence[ExpectedTensor], config: Backbone, role: str = "target"
) -> tuple[LoadPlan | None, Outcome]:
    inventory, outcome = read_inventory(role, folder)
    assert inventory is not None, outcome.findings
    return judge_tensors(inventory, layout, make_reading(config, role))


def judge_target(
    folder: Path, tensors: dict[str, torch.Tensor], **changes: object
) -> tuple[LoadPlan | None, Outcome]:
    config = make_target(**changes)
    return judge(write_single(folder, tensors), target_layout(config), config)


def judge_draft(
    folder: Path, tensors: dict[str, torch.Tensor], **changes: object
) -> tuple[LoadPlan | None, Outcome]:
    config = make_draft(**changes)
    return judge(write_single(folder, tensors), draft_layout(config), config, "draft")


def target_tensors(**changes: object) -> dict[str, torch.Tensor]:
    return make_tensors(target_layout(make_target(**changes)))


def draft_tensors(**changes: object) -> dict[str, torch.Tensor]:
    return make_tensors(draft_layout(make_draft(**changes)))


def one(outcome: Outcome, rule: str) -> str:
    assert rules_of(outcome) == [rule]
    return outcome.findings[0].message


def test_a_good_checkpoint_passes_every_rule(tmp_path: Path) -> None:
    plan, outcome = judge_target(tmp_path, target_tensors())
    assert plan is not None
    assert outcome.findings == ()
    assert status_of(outcome) == dict.fromkeys(
        ("SD401", "SD402", "SD403", "SD404", "SD416"), "pass"
    )


def test_qwen3_8b_and_its_draft_to_the_byte(tmp_path: Path) -> None:
    target, draft = make_target(**QWEN3_8B), make_draft(**{**DRAFT_4B, "hidden_size": 4096})
    draft = draft.model_copy(update={"intermediate_size": 12288})
    for name, layout in (("t", target_layout(target)), ("d", draft_layout(draft))):
        (tmp_path / name).mkdir()
        write_sparse(tmp_path / name / "model.safetensors", layout)
    plan, _ = judge(tmp_path / "t", target_layout(target), target)
    assert plan is not None
    assert (len(plan.entries), plan.numel) == (399, 8_190_735_360)
    assert plan.checkpoint_bytes == resident_bytes(plan) == 16_381_470_720
    assert resident_bytes(plan, "float32") == 32_762_941_440
    plan, _ = judge(tmp_path / "d", draft_layout(draft), draft, "draft")
    assert plan is not None
    assert (plan.numel, resident_bytes(plan, "float16")) == (1_048_626_432, 2_097_252_864)


def test_entries_are_in_file_and_offset_order(tmp_path: Path) -> None:
    tensors = list(target_tensors().items())
    config = make_target()
    write_sharded(tmp_path, dict(tensors[15:]), dict(tensors[:15]))
    plan, _ = judge(tmp_path, target_layout(config), config)
    assert plan is not None
    places = [(entry.file, entry.begin) for entry in plan.entries]
    assert places == sorted(places)
    assert len(plan.shards) == 2


def test_shape(tmp_path: Path) -> None:
    tensors = target_tensors()
    tensors[Q_PROJ] = torch.ones(8, 24, dtype=torch.bfloat16)
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is None
    assert one(outcome, "SD401") == (
        f"target {Q_PROJ} is [8, 24] in its header, its config implies [24, 8] "
        "(num_attention_heads*head_dim, hidden_size)"
    )
    found, *asked = outcome.findings[0].locations
    assert (found.pointer, found.value) == (f"/{Q_PROJ}/shape", [8, 24])
    assert [(at.pointer, at.value) for at in asked] == [
        ("/num_attention_heads", 6),
        ("/head_dim", 4),
        ("/hidden_size", 8),
    ]


def test_many_shapes_are_counted(tmp_path: Path) -> None:
    """Another hidden size is in 11 tensors a layer, and in 3 others less the head norms."""
    plan, outcome = judge_target(tmp_path, target_tensors(hidden_size=16))
    assert plan is None
    assert rules_of(outcome) == ["SD401"] * 11
    assert "has 11 more tensors" in outcome.findings[-1].message


def test_missing_and_unexpected_are_one_finding_each(tmp_path: Path) -> None:
    tensors = target_tensors()
    for name in list(tensors)[:12]:
        tensors[f"{name}_scale"] = tensors.pop(name)
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is None
    missing, extra = outcome.findings
    assert missing.rule == "SD402"
    assert "lacks 12 of 25 tensors" in missing.message
    assert missing.message.endswith("and 2 more")
    assert extra.rule == "SD403"
    assert "holds 12 tensors" in extra.message


def test_untied_target_without_head(tmp_path: Path) -> None:
    tensors = target_tensors()
    del tensors["lm_head.weight"]
    _, outcome = judge_target(tmp_path, tensors)
    assert "lm_head.weight" in one(outcome, "SD402")
    assert "tie_word_embeddings" in outcome.findings[0].fix
    plan, outcome = judge_target(tmp_path, tensors, tie_word_embeddings=True)
    assert plan is not None
    assert outcome.findings == ()


def test_tied_target_with_head_leaves_it_on_disk(tmp_path: Path) -> None:
    plan, outcome = judge_target(tmp_path, target_tensors(), tie_word_embeddings=True)
    assert plan is not None
    assert "lm_head.weight" not in [entry.name for entry in plan.entries]
    assert "ships 1 tensor not loaded (320 bytes)" in one(outcome, "SD416")
    assert outcome.findings[0].severity is Severity.NOTE


def test_flat_draft_borrows_embedding_and_head(tmp_path: Path) -> None:
    plan, outcome = judge_draft(tmp_path, draft_tensors(schema_id="flat"), schema_id="flat")
    assert plan is not None
    assert len(plan.entries) == 14
    assert "embed_tokens.weight, lm_head.weight" in one(outcome, "SD416")


def test_nested_draft_with_an_embedding_is_something_else(tmp_path: Path) -> None:
    _, outcome = judge_draft(tmp_path, draft_tensors(schema_id="flat"))
    assert one(outcome, "SD403").endswith("embed_tokens.weight, lm_head.weight")
    assert "if they are the target's, export the draft without them" in outcome.findings[0].fix


def test_head_of_another_family_is_refused(tmp_path: Path) -> None:
    """A DSpark checkpoint under a DFlash config would run and draft worthless blocks."""
    dspark = {**DSPARK, "markov_rank": 4}
    _, outcome = judge_draft(tmp_path, draft_tensors(**dspark), schema_id="flat")
    assert rules_of(outcome) == ["SD403", "SD416"]
    assert "markov_head.markov_w1.weight" in outcome.findings[0].message
    plan, outcome = judge_draft(tmp_path, draft_tensors(**dspark), **dspark)
    assert plan is not None
    assert "markov_head.markov_w1.weight" in [entry.name for entry in plan.entries]


def test_tensors_name_the_family_they_belong_to(tmp_path: Path) -> None:
    """A Domino head under a config that says DFlash."""
    head = {"prefix_gru.weight_hh_l0": torch.zeros(2)}
    _, outcome = judge_draft(tmp_path, draft_tensors() | head)
    assert one(outcome, "SD403").endswith("a family that has such tensors is domino")
    assert "domino" in outcome.findings[0].fix
    (tmp_path / "other").mkdir()
    _, outcome = judge_draft(tmp_path / "other", draft_tensors() | {"gru.weight": torch.zeros(2)})
    assert one(outcome, "SD403").endswith("gru.weight")


def test_part_of_a_head_is_not_called_another_family(tmp_path: Path) -> None:
    dspark = {**DSPARK, "markov_rank": 4}
    gate = {"markov_head.gate_proj.weight": torch.zeros(2)}
    _, outcome = judge_draft(tmp_path, draft_tensors(**dspark) | gate, **dspark)
    told = next(f for f in outcome.findings if f.rule == "SD403")
    assert told.message.endswith("markov_head.gate_proj.weight")
    assert "another name" not in told.fix


def test_a_table_of_ids_has_its_own_dtype(tmp_path: Path) -> None:
    table = ExpectedTensor("d2t", (2,), ("2",), loaded=False, dtypes=("I64",))
    layout = (ExpectedTensor("x", (2,), ("2",)), table)
    for dtype, rules in ((torch.int64, ["SD416"]), (torch.int32, ["SD404", "SD416"])):
        folder = tmp_path / str(dtype)
        folder.mkdir()
        write_single(folder, {"x": torch.zeros(2), "d2t": torch.zeros(2, dtype=dtype)})
        _, outcome = judge(folder, layout, make_target(dtype=None))
        assert rules_of(outcome) == rules


def test_another_spelling_of_a_name_is_the_same_tensor(tmp_path: Path) -> None:
    layout = (ExpectedTensor("layers.0.x", (2,), ("2",)), ExpectedTensor("y", (2,), ("2",)))
    write_single(tmp_path, {"midlayer.x": torch.zeros(2), "y": torch.zeros(2)})
    inventory, _ = read_inventory("target", tmp_path)
    assert inventory is not None
    config = make_reading(make_target(dtype=None))
    plan, outcome = judge_tensors(inventory, layout, config, (("midlayer.", "layers.0."),))
    assert outcome.findings == ()
    assert plan is not None
    assert {entry.name for entry in plan.entries} == {"layers.0.x", "y"}
    assert rules_of(judge_tensors(inventory, layout, config)[1]) == ["SD402", "SD403"]


def test_a_spelling_that_is_taken_is_another_tensor(tmp_path: Path) -> None:
    layout = (ExpectedTensor("layers.0.x", (2,), ("2",)),)
    write_single(tmp_path, {"midlayer.x": torch.zeros(2), "layers.0.x": torch.zeros(2)})
    inventory, _ = read_inventory("target", tmp_path)
    assert inventory is not None
    config = make_reading(make_target(dtype=None))
    _, outcome = judge_tensors(inventory, layout, config, (("midlayer.", "layers.0."),))
    assert rules_of(outcome) == ["SD403"]


def test_confidence_head_that_the_config_promises(tmp_path: Path) -> None:
    dspark = {**DSPARK, "markov_rank": 4}
    tensors = draft_tensors(**dspark)
    del tensors["confidence_head.proj.bias"]
    _, outcome = judge_draft(tmp_path, tensors, **dspark)
    assert rules_of(outcome) == ["SD402", "SD416"]
    plan, _ = judge_draft(tmp_path, tensors, **{**dspark, "enable_confidence_head": False})
    assert plan is not None


def test_model_prefix_on_every_draft_tensor(tmp_path: Path) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in draft_tensors().items()}
    plan, outcome = judge_draft(tmp_path, tensors)
    assert plan is not None
    assert outcome.findings == ()
    assert "fc.weight" in [entry.name for entry in plan.entries]
    tensors["norm.weight"] = tensors.pop("model.norm.weight")
    plan, outcome = judge_draft(tmp_path, tensors)
    assert plan is None
    assert rules_of(outcome) == ["SD402", "SD403"]


def test_heads_stand_beside_a_model_prefix(tmp_path: Path) -> None:
    """A causal model has its head beside `model`, and so has an export of one."""
    dspark = {**DSPARK, "markov_rank": 4}
    heads = ("lm_head.", "markov_head.", "confidence_head.")
    tensors = draft_tensors(**dspark)
    written = {n if n.startswith(heads) else f"model.{n}": t for n, t in tensors.items()}
    assert len(set(written) & set(tensors)) > 2
    plan, outcome = judge_draft(tmp_path, written, **dspark)
    assert rules_of(outcome) == ["SD416"]
    assert plan is not None


def test_a_target_keeps_its_prefix(tmp_path: Path) -> None:
    tensors = {name.removeprefix("model."): t for name, t in target_tensors().items()}
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is None
    assert rules_of(outcome) == ["SD402", "SD403"]


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float64])
def test_dtypes_that_are_not_loaded(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = target_tensors()
    tensors[Q_PROJ] = tensors[Q_PROJ].to(dtype)
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is None
    text = one(outcome, "SD404")
    assert Q_PROJ in text
    assert "stores tensors as 1 " in text


def test_mixed_dtypes(tmp_path: Path) -> None:
    tensors = target_tensors()
    tensors[Q_PROJ] = tensors[Q_PROJ].float()
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is None
    assert one(outcome, "SD404") == f"target mixes dtypes: 24 BF16, 1 F32; F32 are {Q_PROJ}"


def test_dtype_of_a_tensor_that_stays_on_disk_is_free(tmp_path: Path) -> None:
    tensors = target_tensors()
    tensors["lm_head.weight"] = tensors["lm_head.weight"].float()
    plan, outcome = judge_target(tmp_path, tensors, tie_word_embeddings=True)
    assert plan is not None
    assert rules_of(outcome) == ["SD416"]


@pytest.mark.parametrize(
    ("stored", "name"), [(torch.float16, "float16"), (torch.float32, "float32")]
)
def test_config_that_misstates_the_dtype(tmp_path: Path, stored: torch.dtype, name: str) -> None:
    tensors = {n: t.to(stored) for n, t in target_tensors().items()}
    plan, outcome = judge_target(tmp_path, tensors)
    assert plan is not None
    assert plan.dtype == name
    text = one(outcome, "SD404")
    assert text == f"target config states dtype bfloat16, all tensors are stored as {name}"
    assert outcome.findings[0].severity is Severity.WARNING
    for stated in (name, None):
        plan, outcome = judge_target(tmp_path, tensors, dtype=stated)
        assert plan is not None
        assert outcome.findings == ()


def test_all_faults_in_one_pass(tmp_path: Path) -> None:
    tensors = target_tensors()
    tensors["extra.weight"] = tensors.pop("model.norm.weight")
    tensors[Q_PROJ] = torch.ones(3, 3, dtype=torch.int64)
    _, outcome = judge_target(tmp_path, tensors)
    assert sorted(rules_of(outcome)) == ["SD401", "SD402", "SD403", "SD404"]
