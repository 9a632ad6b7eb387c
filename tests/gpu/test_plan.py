"""A plan for the GPU at hand, compared with what a boot on it measures."""

from pathlib import Path

import pytest

from tests.process import run

PAIR = ("--target", "sample:qwen3", "--draft", "sample:dflash", "--device", "cuda")
JSON = ("--output-format", "json")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_predicted_peak_is_near_the_measured_one(tmp_path: Path, dtype: str) -> None:
    planned = run(*PAIR, "--dtype", dtype, "--plan", *JSON, cache=tmp_path)
    booted = run(*PAIR, "--dtype", dtype, "--exit-after-boot", *JSON, cache=tmp_path)
    assert (planned.code, booted.code) == (0, 0), planned.stdout + booted.stdout
    predicted, measured = (
        next(line for line in done.json["memory"]["ledger"] if line["line"] == "activation")
        for done in (planned, booted)
    )
    print(f"activation: predicted {predicted['billed_bytes']:,}, {measured['billed_bytes']:,}")
    assert predicted["billed_bytes"] == pytest.approx(measured["billed_bytes"], rel=0.1)
