"""The settings of one boot, each with the place it came from. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

# What `weights` is where they are views of their files.
MAPPED = "mapped"

# Requests of one step are attended to one by one: the profile of more would take many minutes.
MAX_REQUESTS = 2**14


def fraction_text(value: Fraction) -> str:
    """A fraction as an exact decimal ("0.875"), or as a ratio where it has none ("1/3")."""
    places = next((n for n in range(64) if (value * 10**n).denominator == 1), None)
    if places is None:
        return str(value)
    digits = f"{int(value * 10**places):0{places + 1}d}"
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator asked for. None means "not set: the boot decides and says why".

    `sources` maps a field name to where its value came from: "flag --draft",
    "env SERVER_DRAFT" or "default".
    """

    target: str
    draft: str | None = None
    model_dir: Path | None = None
    revision: str | None = None
    spec_method: str = "auto"
    num_speculative_tokens: int | None = None
    device: str = "auto"
    weights: str = "private"
    dtype: str = "auto"
    tensor_parallel_size: int = 1
    gpu_memory_utilization: Fraction = Fraction(9, 10)
    kv_cache_memory_bytes: int | None = None
    kv_cache_dtype: str = "auto"
    draft_kv_cache_dtype: str = "auto"
    memory_margin_bytes: int = 150 * 2**20
    max_model_len: int | None = None
    auto_max_model_len: bool = False
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_block_size: int = 16
    check: bool = False
    plan: bool = False
    assume_memory: tuple[int, ...] = ()
    assume_gpu: tuple[str, ...] = ()
    predict: bool | None = None
    exit_after_boot: bool = False
    strict: bool = False
    verbose: bool = False
    concise: bool = False
    output_format: str = "text"
    report_file: Path | None = None
    report_html: Path | None = None
    junit_file: Path | None = None
    port: int | None = None
    termination_log: Path | None = None
    color: str = "auto"
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def source(self, name: str) -> str:
        """Where setting `name` came from, in words."""
        return self.sources.get(name, "default")
