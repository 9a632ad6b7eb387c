"""What is expected of a file or of a pair, from names and public facts, not from the gate."""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.corpus_table.raw import (
    Difference,
    Raw,
    differences,
    draft_facts,
    names_of,
    target_facts,
    unstated,
)

TARGET_FOLDER = "target"
NO_DRAFTS = (TARGET_FOLDER, "tensors")
SERVED_FOLDERS = ("dflash_nested", "dflash_flat", "dspark_flat")
# Folders of a served family whose schema is not served.
_OTHER_SCHEMAS = ("dspark_nested", "dspark_speculators", "speculators")
UNKNOWN, DRAFT_MODEL, EAGLE = "unknown", "draft-model", "eagle"
# The family of a folder <family> or <family>_<schema>.
_FAMILIES = {
    **{name: name for name in ("dflare", "dflash", "dflash2", "dfly", "domino", "dspark")},
    **{name: name for name in ("dspine", EAGLE, "eagle3", "jetspec", "medusa", "mtp")},
    "peagle": "p-eagle",
}
_ALGORITHMS = _FAMILIES | {"mlp": UNKNOWN}

# Which model a draft was trained for: by its file's name, or by the note of its public source.
TRAINED_FOR: Mapping[str, str] = {
    "z-lab__Qwen3-4B-DFlash-b16.*": "Qwen3-4B",
    "z-lab__Qwen3-8B-DFlash-b16.*": "Qwen3-8B",
    "sgl-project__SpecForge-qwen3-4b-dflash.json": "Qwen3-4B",
    "sgl-project__SpecForge-qwen3-8b-dflash.json": "Qwen3-8B",
    "sgl-project__SpecForge-qwen3.5-4b-dflash.json": "Qwen3.5-4B",
    "sgl-project__SpecForge-qwen3.5-35b-a3b-dflash.json": "Qwen3.5-35B-A3B",
    "sgl-project__SpecForge-qwen2.5-0.5b-dflash.json": "Qwen2.5-0.5B",
    "sgl-project__SpecForge-longcat-flash-dflash.json": "LongCat-Flash",
    # The exporter's output for a Qwen3-8B target.
    "NVIDIA__Model-Optimizer-dflash-export.*": "Qwen3-8B",
    "NVIDIA__Model-Optimizer-dflash-swa-export.*": "Qwen3-8B",
    # Agrees with z-lab's draft for Qwen3-4B field by field.
    "Tencent__AngelSlim-qwen3_dflash.json": "Qwen3-4B",
    "Tencent__AngelSpec-dspark_qwen3_4b.json": "Qwen3-4B",
    "deepseek-ai__dflash_qwen3_4b_block7.*": "Qwen3-4B",
    "deepseek-ai__dflash_qwen3_8b_block7.*": "Qwen3-8B",
    "deepseek-ai__dspark_qwen3_4b_block7.*": "Qwen3-4B",
    "deepseek-ai__dspark_qwen3_8b_block7.*": "Qwen3-8B",
}
MODELS: Mapping[str, str] = {
    "Qwen__Qwen3-0.6B.json": "Qwen3-0.6B",
    "Qwen__Qwen3-1.7B.json": "Qwen3-1.7B",
    "Qwen__Qwen3-4B.json": "Qwen3-4B",
    "Qwen__Qwen3-4B-2507.json": "Qwen3-4B-2507",
    "Qwen__Qwen3-8B.json": "Qwen3-8B",
    "Qwen__Qwen3-8B.resaved-transformers*.json": "Qwen3-8B",
    "Qwen__Qwen3-32B.json": "Qwen3-32B",
    "Qwen__Qwen3-32B-FP8-*.json": "Qwen3-32B",
    "Qwen__Qwen3-30B-A3B.json": "Qwen3-30B-A3B",
    "Qwen__Qwen3-30B-A3B-Instruct-2507.json": "Qwen3-30B-A3B-Instruct-2507",
    "Qwen__Qwen3-235B-A22B.json": "Qwen3-235B-A22B",
    "Qwen__Qwen3-VL-4B-Instruct.json": "Qwen3-VL-4B-Instruct",
    "Qwen__Qwen3.5-27B.json": "Qwen3.5-27B",
    "Qwen__Qwen3.5-35B-A3B.json": "Qwen3.5-35B-A3B",
    "Qwen__Qwen3.5-122B-A10B.json": "Qwen3.5-122B-A10B",
    "XiaomiMiMo__MiMo-7B-*.json": "MiMo-7B",
    "deepseek-ai__DeepSeek-V3.json": "DeepSeek-V3",
    "deepseek-ai__DeepSeek-V4-Flash.json": "DeepSeek-V4-Flash",
    "google__gemma-4-26B-A4B.json": "gemma-4-26B-A4B",
    "meta-llama__Llama-3.2-3B.json": "Llama-3.2-3B",
    "meta-llama__Meta-Llama-3.1-8B.json": "Llama-3.1-8B",
    "meta-llama__Meta-Llama-3.1-405B.json": "Llama-3.1-405B",
    "nvidia__Llama-3.1-70B-Instruct-FP8.json": "Llama-3.1-70B-Instruct",
    "nvidia__Qwen3.6-27B-NVFP4.json": "Qwen3.6-27B",
    "nvidia__Qwen3.6-35B-A3B-NVFP4.json": "Qwen3.6-35B-A3B",
    "openai__gpt-oss-20b.json": "gpt-oss-20b",
}


class FamilyExpected(NamedTuple):
    """The families that a file may be named; empty when nothing is known of it.

    `says`: words that the refusal must hold when the family is unknown.
    """

    families: tuple[str, ...]
    says: tuple[str, ...] = ()


class PairExpected(NamedTuple):
    """Whether a pair has to be accepted, on which ground, and what speaks against it.

    `alike`: trained for another model, and no fact in the two files shows it. Then nothing is
    expected.
    """

    accept: bool
    ground: str
    differences: tuple[Difference, ...] = ()
    obstacles: Mapping[str, str] = {}
    unstated: tuple[str, ...] = ()
    alike: bool = False


def expected_family(folder: str, raw: Raw | None) -> FamilyExpected:
    """The family of a file in `folder`; `raw` is None when the file holds no object."""
    if raw is None:
        return FamilyExpected((UNKNOWN,))
    if folder in NO_DRAFTS:
        return FamilyExpected((UNKNOWN, DRAFT_MODEL))
    if folder == "speculators":
        algorithm = _ALGORITHMS.get(str(raw.get("speculators_model_type")))
        return FamilyExpected((algorithm,) if algorithm else ())
    family = _family_of(folder)
    if family is None:
        return FamilyExpected(())
    if family == EAGLE and not any(EAGLE in name.lower() for name in names_of(raw)):
        return FamilyExpected((UNKNOWN,), ("undecided", EAGLE, DRAFT_MODEL))
    return FamilyExpected((family,))


def servable(folder: str, served: bool) -> bool:
    """Whether drafts of `folder` should be served; `served`, the gate's word, counts elsewhere."""
    if folder in SERVED_FOLDERS:
        return True
    family = _family_of(folder)
    return served and folder not in _OTHER_SCHEMAS and family in (None, "dflash", "dspark")


def expected_pair(draft: tuple[Path, Raw], target: tuple[Path, Raw]) -> PairExpected:
    """What is expected of a pair of files whose draft is of a served family."""
    ours, theirs = draft_facts(draft[1]), target_facts(target[1])
    against = tuple(differences(ours, theirs))
    obstacles = {**ours.obstacles, **theirs.obstacles}
    missing = tuple(unstated(ours, theirs))
    trained, model = _entry(TRAINED_FOR, draft[0]), _entry(MODELS, target[0])
    named = trained is not None and model is not None
    fits = trained == model if named else not against
    loadable = theirs.foreign is None and not obstacles
    return PairExpected(
        accept=fits and loadable and not missing,
        ground=f"trained for {trained}, the target is {model}" if named else "facts",
        differences=against,
        obstacles=obstacles,
        unstated=missing,
        alike=not (fits or against or obstacles or missing),
    )


def _family_of(folder: str) -> str | None:
    return _FAMILIES.get(folder) or _FAMILIES.get(folder.partition("_")[0])


def _entry(table: Mapping[str, str], path: Path) -> str | None:
    return next((model for pattern, model in table.items() if fnmatch(path.name, pattern)), None)
