"""docs/architecture.md has the phases of the boot and the layers of the import contract."""

import re
import tomllib

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_phases_are_those_of_the_boot_in_their_order() -> None:
    # A plan ends the boot, and so has a function of its own, behind the boot's.
    boot = re.findall(r'log\.phase\("([^"]+)"', (ROOT / "server/startup.py").read_text())
    rows = re.findall(r"^\| ([\w -]+?)(?: \([^|]*\))? \|", PAGE, re.M)
    told = [row for row in rows if row in boot]
    assert sorted(told) == sorted(boot)
    assert [row for row in told if row != "plan"] == [phase for phase in boot if phase != "plan"]


def test_the_layers_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    told = re.search(r"Arrows point downwards: ([^.]+)\.", PAGE)
    assert told
    found = [layer.split(", ") for layer in " ".join(told[1].split()).split("; ")]
    assert found == [layer.replace("server.", "").split(" | ") for layer in layers]
