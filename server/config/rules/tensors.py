"""Rules 4xx: weight files and the tensors in them. Text only."""

from server.findings import ExitCode, Rule, Severity

_FORMAT = "huggingface/safetensors safetensors/src/tensor.rs (read_metadata, Metadata::validate)"
_ISSUES = "https://github.com"
_FETCH = "fetch the checkpoint again, or point at the folder that holds it whole"

RULES: tuple[Rule, ...] = (
    Rule(
        id="SD401",
        name="tensor-shape",
        summary="each tensor has the shape that config.json implies",
        why="weights of another shape stop the load half-way, or fill a matrix of the wrong size; "
        "the config and the weights belong to different models",
        fix="use the config.json that was saved with these weights",
        source=f"{_ISSUES}/verl-project/verl/issues/834; {_ISSUES}/vllm-project/vllm/issues/15124",
    ),
    Rule(
        id="SD402",
        name="tensor-missing",
        summary="each tensor that the model needs is in the checkpoint",
        why="a parameter without a tensor keeps whatever its memory held; the server would start "
        "and answer nonsense",
        fix=_FETCH,
        source=f"{_ISSUES}/vllm-project/vllm/issues/15536; "
        f"{_ISSUES}/QwenLM/Qwen3-VL-Embedding/issues/89",
    ),
    Rule(
        id="SD403",
        name="tensor-unexpected",
        summary="the checkpoint holds no tensor that this server's forward does not compute",
        why="a tensor that nothing reads is arithmetic that is left out; the model would run and "
        "be wrong (a head or a convolution of another drafter family, a quantisation scale)",
        fix="check that the checkpoint is of the family and architecture that config.json states",
        source="sgl-project/sglang python/sglang/srt/models/dflash.py (ignores unknown tensors); "
        "Tencent/AngelSpec angelspec/models/draft/auto.py (fusion weights dropped as unexpected)",
    ),
    Rule(
        id="SD404",
        name="tensor-dtype",
        summary="the tensors to load are all BF16, all F16 or all F32, as config.json says",
        why="integers and 8-bit floats need scales that this server does not apply; a config that "
        "misstates the dtype made servers load twice the bytes or cast silently",
        fix="use the unquantised checkpoint, stored in one floating dtype",
        source=f"{_ISSUES}/sgl-project/sglang/pull/30594; {_ISSUES}/vllm-project/vllm/pull/18751; "
        f"{_ISSUES}/allenai/olmo-cookbook/issues/60",
    ),
    Rule(
        id="SD405",
        name="weights-not-found",
        summary="the folder holds model.safetensors or model.safetensors.index.json",
        why="without them there is nothing to load; an empty folder has been known to load as a "
        "model of random weights",
        fix=_FETCH,
        source=f"{_ISSUES}/GeeeekExplorer/nano-vllm/pull/272",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        id="SD406",
        name="shard-missing",
        summary="each file that the index names is there",
        why="the tensors of a missing shard keep whatever their memory held; the server would "
        "start and answer nonsense",
        fix="the download is incomplete: run it again for the files named",
        source=f"{_ISSUES}/vllm-project/vllm/issues/34859; "
        f"{_ISSUES}/sgl-project/sglang/pull/14253; {_ISSUES}/Blaizzy/mlx-vlm/pull/1827",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        id="SD407",
        name="header-invalid",
        summary="each shard starts with a valid safetensors header",
        why="the file is not what its name says; parsers report this as a header that is too "
        "large, minutes into a load",
        fix="fetch this file again; a Git LFS pointer needs `git lfs pull`",
        source=f"{_FORMAT}; {_ISSUES}/microsoft/OmniParser/issues/34; "
        f"{_ISSUES}/deepseek-ai/DeepSeek-V3/issues/557; {_ISSUES}/sgl-project/sglang/pull/13870; "
        f"{_ISSUES}/safetensors/safetensors/issues/668",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD408",
        name="shard-size",
        summary="each shard is exactly as long as its header says",
        why="a truncated shard reads as zeros or garbage, or ends the load after the shards before "
        "it were read; a longer one was overwritten by something else",
        fix="fetch this file again",
        source=f"{_FORMAT}; {_ISSUES}/QwenLM/Qwen3-VL/issues/264; "
        f"{_ISSUES}/osaurus-ai/vmlx-swift/pull/217; {_ISSUES}/Comfy-Org/ComfyUI/issues/15602",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD409",
        name="index-invalid",
        summary="the index is a JSON object whose weight_map maps tensor names to file names",
        why="an index that cannot be read does not say which files make up the checkpoint",
        fix="fetch model.safetensors.index.json again",
        source=f"{_ISSUES}/vllm-project/vllm-ascend/issues/19",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD410",
        name="tensor-place",
        summary="each tensor is in exactly the shard that the index gives for it",
        why="a second, stale copy of a tensor in another shard overwrites the right one, without "
        "an error; an index that disagrees with the shards is of another save",
        fix="fetch the index and the shards again, all from the same revision",
        source=f"{_ISSUES}/huggingface/huggingface_hub/issues/4725; "
        f"{_ISSUES}/vllm-project/vllm/pull/54230",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD411",
        name="weights-ambiguous",
        summary="the folder holds a single file or an index with shards, not both",
        why="the two are different saves of the model, and loaders differ in which one they take",
        fix="remove the one that is stale: model.safetensors, or the index with its shards",
        source="pegainfer-project/pegainfer pegainfer-core/src/weight_loader.rs (the single file "
        f"wins silently); {_ISSUES}/Blaizzy/mlx-vlm/pull/1464",
    ),
    Rule(
        id="SD412",
        name="pickle-refused",
        summary="weights are safetensors; pickle files (.bin, .pt, .pth) are never opened",
        why="reading a pickle runs the code that it holds",
        fix="convert the checkpoint to safetensors, or fetch a revision that has them",
        source="huggingface/safetensors README.md; https://docs.python.org/3/library/pickle.html",
    ),
    Rule(
        id="SD413",
        name="shard-path-outside",
        summary="the index names plain files of its own folder",
        why="a path with a separator or `..` reads a file outside the checkpoint",
        fix="fetch the index again from a source that you trust",
        source=f"{_ISSUES}/huggingface/transformers/issues/47176; "
        f"{_ISSUES}/huggingface/transformers/issues/46097",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD414",
        name="shard-unreadable",
        summary="each weight file is a regular file that this process may read",
        why="a file without read permission is reported by other loaders as missing, which sends "
        "people after a download that is whole",
        fix="give this process read permission for the file, or mount it",
        source=f"{_ISSUES}/safetensors/safetensors/issues/782; "
        f"{_ISSUES}/huggingface/sentence-transformers/issues/4010",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        id="SD415",
        name="read-failed",
        summary="each byte that the headers promise can be read during the load",
        why="the storage failed or the file was changed under the load; weights that were read in "
        "part must not be served",
        fix="check the storage, leave the files alone during a boot, and start again",
        source=f"{_ISSUES}/NVIDIA/TensorRT-LLM/pull/17368; "
        f"{_ISSUES}/sgl-project/sglang/issues/6083 (SIGBUS where the file was memory-mapped)",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        id="SD416",
        name="tensor-not-loaded",
        summary="tensors that the checkpoint ships and this server leaves on disk are listed",
        why="a draft borrows the target's embedding and head, a tied target uses its embedding as "
        "the head, and a confidence head only predicts acceptance; loading them costs memory",
        fix="nothing to do",
        source="deepseek-ai/DeepSpec deepspec/modeling/dspark (frozen copies are shipped); "
        f"{_ISSUES}/sgl-project/sglang/issues/3402; {_ISSUES}/vllm-project/vllm/pull/3344",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD417",
        name="stray-weights",
        summary="weight files that the index does not name are listed, and not read",
        why="loaders that read each *.safetensors of a folder load such files over the right ones",
        fix="remove files that do not belong to this checkpoint",
        source="vllm-project/vllm vllm/model_executor/model_loader/weight_utils.py "
        f"(filter_duplicate_safetensors_files); {_ISSUES}/Blaizzy/mlx-vlm/pull/1464",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD418",
        name="tensor-not-finite",
        summary="each loaded value is a finite number in the served dtype",
        why="one NaN or infinity spreads to every token; a file that is damaged, or a value that "
        "overflows in a narrower --dtype, looks like a bug of the server",
        fix="fetch the file again; where --dtype is narrower than the file's, leave it out",
        source=f"{_ISSUES}/allenai/olmo-cookbook/issues/60",
        exit_code=ExitCode.DATAERR,
    ),
)
