"""DFlash's relatives as published: what is read of each file, and which targets it fits."""

import json
from typing import Any

import pytest

from server.config.draft import Draft, read_draft
from server.config.pair import Asked, Pair, judge_pair
from server.config.target import read_target
from tests.config.drafts import refusals
from tests.config.pairs import errors
from tests.corpus import corpus_file, corpus_root

QWEN3_8B = ["Qwen__Qwen3-8B", "Qwen__Qwen3-8B.resaved-transformers4.57"]
QWEN3_4B = ["Qwen__Qwen3-4B"]
QWEN3_27B = ["Qwen__Qwen3.5-27B", "nvidia__Qwen3.6-27B-NVFP4"]

# file, family and schema, targets of the corpus that it fits, block size, layout
FILES: list[tuple[str, str, list[str], int | None, str | None]] = [
    ("dflash2/z-lab__Qwen3.8-27B-DFlash2", "dflash2 (nested)", QWEN3_27B, 8, "anchor-drop"),
    ("dflash2/sgl-project__SpecForge-qwen3.6-27b-dflash2", "dflash2 (nested)",
     QWEN3_27B, 8, "anchor-drop"),
    ("dspark_nested/sgl-project__SpecForge-qwen3-4b-dspark", "dspark (nested)",
     QWEN3_4B, 7, "anchor-drop"),
    ("dspark_nested/sgl-project__SpecForge-qwen3-8b-dspark", "dspark (nested)",
     QWEN3_8B, 7, "anchor-drop"),
    ("dspark_nested/sgl-project__SpecForge-glm-5.2-dspark", "dspark (nested)",
     [], 7, "anchor-drop"),
    ("dspark_nested/sgl-project__SpecForge-kimi-k3-dspark", "dspark (nested)",
     [], 7, "anchor-drop"),
    ("dspark_nested/NVIDIA__Model-Optimizer-dspark-export.reconstructed", "dspark (modelopt)",
     QWEN3_8B, 8, "anchor-first"),
    ("dspark_flat/Tencent__AngelSpec-dspark", "dspark (angelspec)", QWEN3_8B, None, None),
    ("dspark_flat/Tencent__AngelSpec-dspark_qwen3_4b", "dspark (angelspec)",
     QWEN3_4B, None, None),
    ("dflash_flat/Tencent__AngelSpec-dflash", "dflash (angelspec)", QWEN3_8B, None, None),
    ("dfly/Tencent__AngelSpec-dfly_qwen3_4b", "dfly (angelspec)", QWEN3_4B, None, None),
    ("dfly/Tencent__AngelSpec-dfly_hy3", "dfly (angelspec)", [], None, None),
    ("dflare/Tencent__AngelSlim-qwen3_dflare", "dflare (nested)", QWEN3_4B, 16, "anchor-drop"),
]  # fmt: skip
NAMES = [name for name, *_ in FILES]


def read(name: str) -> tuple[Draft, Any, dict[str, Any]]:
    path = corpus_file(f"{name}.json")
    draft = read_draft(path, strict=False)
    assert draft.reading is not None
    return draft, draft.reading.partial, json.loads(path.read_text())


@pytest.mark.parametrize(("name", "family", "targets", "block", "layout"), FILES)
def test_published_file_is_read_as_it_stands(
    name: str, family: str, targets: list[str], block: int | None, layout: str | None
) -> None:
    draft, partial, raw = read(name)
    assert f"{draft.family} ({draft.schema_id})" == family
    assert refusals(draft) == ["SD312"]
    inner = raw.get("dflash_config", raw)
    assert partial.mask_token_id == inner["mask_token_id"]
    assert list(partial.target_layer_ids) == inner["target_layer_ids"]
    depth = raw.get("target_num_hidden_layers") or raw["num_target_layers"]
    assert partial.num_target_layers == depth
    assert getattr(partial, "block_size", None) == block
    assert getattr(partial, "layout", None) == layout
    own = {*inner, *raw} & (type(partial).model_fields.keys() - {"num_target_layers", "dtype"})
    stated = {**raw, **inner}
    lists = {"target_layer_ids"}
    assert all(getattr(partial, key) == stated[key] for key in own - lists)


@pytest.mark.parametrize(("name", "family", "targets", "block", "layout"), FILES)
def test_published_file_fits_its_own_targets_only(
    name: str, family: str, targets: list[str], block: int | None, layout: str | None
) -> None:
    draft, _, _ = read(name)
    assert draft.reading is not None
    fitting = []
    for path in sorted((corpus_root() / "target").glob("*.json")):
        target = read_target(path, strict=False)
        assert target.reading is not None
        outcome = judge_pair(Pair(draft.reading, target.reading, Asked()))
        if not errors(outcome):
            fitting.append(path.stem)
    assert fitting == targets


@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_a_published_file_are_known(name: str) -> None:
    draft, partial, _ = read(name)
    assert draft.tensors is not None
    assert draft.reading is not None
    assert not draft.reading.unresolved.keys() & set(draft.tensors.needs)
    names = [tensor.name for tensor in draft.tensors.expected(partial)]
    assert len(names) == len(set(names)) > 11 * partial.num_hidden_layers


def test_dflash2_tensors_equal_the_published_header() -> None:
    draft, partial, _ = read("dflash2/z-lab__Qwen3.8-27B-DFlash2")
    header = corpus_file("tensors/z-lab__Qwen3.8-27B-DFlash2.tensors.reconstructed.json")
    assert draft.tensors is not None
    expected = {t.name: list(t.shape) for t in draft.tensors.expected(partial)}
    assert len(expected) == 81
    published = json.loads(header.read_text())
    assert expected == {name: entry["shape"] for name, entry in published.items()}
