"""Rules about one configuration file: is it there, is it JSON, does it state what is needed."""

from server.findings import ExitCode, Rule, Severity

_GUESSED = "https://github.com/sgl-project/sglang/issues/37475"
_DEEPSPEC = "deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py"
_CACHE = "huggingface/huggingface_hub src/huggingface_hub/file_download.py"
_JSON = "https://www.rfc-editor.org/rfc/rfc8259"

RULES: tuple[Rule, ...] = (
    Rule(
        "SD101",
        "config-not-found",
        "the config.json that a checkpoint is read from must exist",
        "without it neither the family nor one size of the model is known",
        "give the folder that holds config.json, or the file itself",
        "https://github.com/vllm-project/vllm/issues/17618",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD102",
        "config-unreadable",
        "the config.json must be a regular file that this process may read",
        "a FIFO or a device would block the boot for ever; a file without permission says nothing",
        "check the path, its mount and its permissions",
        "https://github.com/vllm-project/vllm/issues/17618",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD103",
        "json-invalid",
        "a configuration file must be one JSON object in UTF-8, of a sane size and depth",
        "a truncated or foreign file would be read as a model that it does not describe",
        "fetch the file again, and compare its size with the origin's",
        _JSON,
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD104",
        "json-duplicate-key",
        "an object may give each key once",
        "parsers differ in which of the two values they keep, so two programs read two models",
        "remove one of the two; keep the value the checkpoint was trained with",
        f"{_JSON} (section 4)",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD105",
        "trained-property-missing",
        "a value that was fixed by training must be stated in the file; none is derived",
        "a derived value of the right type serves without an error and drafts at next to no "
        "acceptance",
        "take the value from the training configuration and add it to the file",
        _GUESSED,
    ),
    Rule(
        "SD106",
        "json-non-finite-number",
        "numbers must be finite; NaN, Infinity and 1e999 are refused",
        "JSON has no such numbers, and arithmetic with them compares unequal to everything",
        "write the number that was meant",
        f"{_JSON} (section 6)",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD107",
        "field-type",
        'a field must have its exact JSON type: true is not 1, 16.0 and "16" are not 16',
        "a tolerant reader turns a typing error into a size that nobody meant",
        "write the value with the type that the message asks for",
        "sgl-project/SpecForge scripts/gates/normalize_dflash_export.py",
    ),
    Rule(
        "SD108",
        "field-range",
        "a field must lie in the range in which it has a meaning",
        "outside it an index leaves its table, or a shape has no elements",
        "correct the value named in the message",
        "sgl-project/sglang python/sglang/srt/speculative/dflash_utils.py",
    ),
    Rule(
        "SD109",
        "unknown-draft-key",
        "every key inside dflash_config must be one that this server knows",
        "keys there change the drafter's arithmetic; one that is dropped gives a drafter that "
        "runs and proposes nothing useful",
        "remove the key if it is a leftover, or use a server that implements it",
        "https://github.com/vllm-project/vllm/pull/51338",
    ),
    Rule(
        "SD110",
        "same-fact-disagrees",
        "a fact that the file states at two places must have one value",
        "engines differ in which place wins, so the same file would be served in two ways",
        "make both places say what the checkpoint was trained with, or remove one",
        "https://github.com/InternLM/lmdeploy/pull/4991",
    ),
    Rule(
        "SD111",
        "ignored-key",
        "a top-level key that this server neither reads nor knows as harmless is told; one that "
        "looks like a known key is refused",
        "it is ignored; if it mattered, silence would hide that",
        "nothing to do when the key is a leftover; --strict makes it an error",
        "https://github.com/vllm-project/vllm/pull/51338",
        severity=Severity.NOTE,
    ),
    Rule(
        "SD112",
        "model-name-not-found",
        "a name that is not a path must be found under --model-dir or in the local model cache",
        "nothing is downloaded at boot, so a checkpoint that is not here cannot be served",
        "fetch the checkpoint first, or give its folder",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD113",
        "model-name-ambiguous",
        "a name must lead to exactly one checkpoint",
        "picking one of several would serve a model that was not asked for",
        "give the full path, the full repository name, or --revision",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD114",
        "cache-entry-broken",
        "a cache entry must hold the snapshot that its reference names",
        "an interrupted download leaves a reference without its files",
        "fetch the checkpoint again",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD115",
        "dspine-key-outside",
        "a DSpine key must stand where it is read: inside dflash_config, save "
        "code_bridge_second_pass, which is read at the top level",
        "elsewhere nothing reads it, although whoever wrote it meant it",
        "move the key to where it is read, or remove it",
        "pegainfer-project/pegainfer pull request 1172",
        severity=Severity.WARNING,
    ),
    Rule(
        "SD116",
        "layer-ids-order",
        "target_layer_ids must be strictly increasing",
        "the projection was trained on the captured layers in this order; another order or a "
        "repeated layer feeds it foreign columns",
        "write the ids as they were in training, in increasing order",
        _DEEPSPEC,
    ),
    Rule(
        "SD117",
        "layer-types-length",
        "layer_types must name one type per layer",
        "with another length some layers have no type, or the file describes another model",
        "give layer_types one entry for each of num_hidden_layers",
        "z-lab/dflash dflash/model.py",
    ),
    Rule(
        "SD118",
        "mask-id-overlaps-token",
        "the mask token should not be a token that text uses, such as end of sequence",
        "a real token then looks like a masked position to the drafter",
        "compare mask_token_id with the training configuration",
        "sgl-project/SpecForge configs/longcat-flash-dflash.json",
        severity=Severity.WARNING,
    ),
    Rule(
        "SD119",
        "geometry-indivisible",
        "sizes that share out one another must divide: attention heads over key/value heads, "
        "hidden channels over convolution groups; head_dim must be even",
        "query heads are shared out over key/value heads, channels over groups, and rotary "
        "embedding turns pairs",
        "correct the sizes named in the message",
        "huggingface/transformers src/transformers/models/qwen3/modeling_qwen3.py",
    ),
)
