"""Rules about one configuration file: is it there, is it JSON, does it state what is needed."""

from server.config.rules.model import Rule
from server.findings import ExitCode, Severity

_GUESSED = "https://github.com/sgl-project/sglang/issues/37475"
_DEEPSPEC = "deepseek-ai/DeepSpec deepspec/modeling/dspark/qwen3/config.py"
_CACHE = "huggingface/huggingface_hub src/huggingface_hub/file_download.py"
_JSON = "https://www.rfc-editor.org/rfc/rfc8259"

RULES: tuple[Rule, ...] = (
    Rule(
        "SD101",
        "config-not-found",
        "The config.json that a checkpoint is read from must exist.",
        "Without it neither the family nor one size of the model is known.",
        "Give the folder that holds config.json, or the file itself.",
        "https://github.com/vllm-project/vllm/issues/17618",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD102",
        "config-unreadable",
        "The config.json must be a regular file that this process may read.",
        "A FIFO or a device would block the boot for ever; a file without permission says nothing.",
        "Check the path, its mount and its permissions.",
        "https://github.com/vllm-project/vllm/issues/17618",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD103",
        "json-invalid",
        "A configuration file must be one JSON object in UTF-8, of a sane size and depth.",
        "A truncated or foreign file would be read as a model that it does not describe.",
        "Fetch the file again, and compare its size with the origin's.",
        _JSON,
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD104",
        "json-duplicate-key",
        "An object may give each key once.",
        "Parsers differ in which of the two values they keep, so two programs read two models.",
        "Remove one of the two; keep the value the checkpoint was trained with.",
        f"{_JSON} (section 4)",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD105",
        "trained-property-missing",
        "A value that was fixed by training must be stated in the file; none is derived.",
        "A derived value of the right type serves without an error and drafts at next to no "
        "acceptance.",
        "Take the value from the training configuration and add it to the file.",
        _GUESSED,
    ),
    Rule(
        "SD106",
        "json-non-finite-number",
        "Numbers must be finite; NaN, Infinity and 1e999 are refused.",
        "JSON has no such numbers, and arithmetic with them compares unequal to everything.",
        "Write the number that was meant.",
        f"{_JSON} (section 6)",
        exit_code=ExitCode.DATAERR,
    ),
    Rule(
        "SD107",
        "field-type",
        'A field must have its exact JSON type: true is not 1, 16.0 and "16" are not 16.',
        "A tolerant reader turns a typing error into a size that nobody meant.",
        "Write the value with the type that the message asks for.",
        "sgl-project/SpecForge scripts/gates/normalize_dflash_export.py",
    ),
    Rule(
        "SD108",
        "field-range",
        "A field must lie in the range in which it has a meaning.",
        "Outside it an index leaves its table, or a shape has no elements.",
        "Correct the value named in the message.",
        "sgl-project/sglang python/sglang/srt/speculative/dflash_utils.py",
    ),
    Rule(
        "SD109",
        "unknown-draft-key",
        "Every key inside dflash_config must be one that this server knows.",
        "Keys there change the drafter's arithmetic; one that is dropped gives a drafter that "
        "runs and proposes nothing useful.",
        "Remove the key if it is a leftover, or use a server that implements it.",
        "https://github.com/vllm-project/vllm/pull/51338",
    ),
    Rule(
        "SD110",
        "same-fact-disagrees",
        "A fact that the file states at two places must have one value.",
        "Engines differ in which place wins, so the same file would be served in two ways.",
        "Make both places say what the checkpoint was trained with, or remove one.",
        "https://github.com/InternLM/lmdeploy/pull/4991",
    ),
    Rule(
        "SD111",
        "ignored-key",
        "A top-level key that this server neither reads nor knows as harmless is told.",
        "It is ignored; if it mattered, silence would hide that.",
        "Nothing to do when the key is a leftover; --strict makes it an error.",
        "https://github.com/vllm-project/vllm/pull/51338",
        severity=Severity.NOTE,
    ),
    Rule(
        "SD112",
        "model-name-not-found",
        "A name that is not a path must be found under --model-dir or in the local model cache.",
        "Nothing is downloaded at boot, so a checkpoint that is not here cannot be served.",
        "Fetch the checkpoint first, or give its folder.",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD113",
        "model-name-ambiguous",
        "A name must lead to exactly one checkpoint.",
        "Picking one of several would serve a model that was not asked for.",
        "Give the full path, the full repository name, or --revision.",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD114",
        "cache-entry-broken",
        "A cache entry must hold the snapshot that its reference names.",
        "An interrupted download leaves a reference without its files.",
        "Fetch the checkpoint again.",
        _CACHE,
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        "SD115",
        "dspine-key-outside",
        "A DSpine key must stand where it is read: inside dflash_config, save "
        "code_bridge_second_pass, which is read at the top level.",
        "Elsewhere nothing reads it, although whoever wrote it meant it.",
        "Move the key to where it is read, or remove it.",
        "pegainfer-project/pegainfer pull request 1172",
        severity=Severity.WARNING,
    ),
    Rule(
        "SD116",
        "layer-ids-order",
        "target_layer_ids must be strictly increasing.",
        "The projection was trained on the captured layers in this order; another order or a "
        "repeated layer feeds it foreign columns.",
        "Write the ids as they were in training, in increasing order.",
        _DEEPSPEC,
    ),
    Rule(
        "SD117",
        "layer-types-length",
        "layer_types must name one type per layer.",
        "With another length some layers have no type, or the file describes another model.",
        "Give layer_types one entry for each of num_hidden_layers.",
        "z-lab/dflash dflash/model.py",
    ),
    Rule(
        "SD118",
        "mask-id-overlaps-token",
        "The mask token should not be a token that text uses, such as end of sequence.",
        "A real token then looks like a masked position to the drafter.",
        "Compare mask_token_id with the training configuration.",
        "sgl-project/SpecForge configs/longcat-flash-dflash.json",
        severity=Severity.WARNING,
    ),
    Rule(
        "SD119",
        "geometry-indivisible",
        "Attention heads must be a multiple of key/value heads, and head_dim must be even.",
        "Query heads are shared out over key/value heads, and rotary embedding turns pairs.",
        "Correct the head counts or head_dim.",
        "huggingface/transformers src/transformers/models/qwen3/modeling_qwen3.py",
    ),
)
