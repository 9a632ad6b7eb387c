"""The samples in deploy/ say what this server takes: flags, variables, paths, exit codes."""

import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.cli import parse
from server.findings import ExitCode
from server.live.port import answer
from server.live.state import State
from server.options import Options
from tests.boots import make_log

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
UNIT = DEPLOY / "systemd" / "draftgate.service"
JOB, DEPLOYMENT = (DEPLOY / "kubernetes" / name for name in ("job.yaml", "deployment.yaml"))
WORKFLOW = DEPLOY / "github" / "pair.yml"
# What another try cannot change.
FINAL = {ExitCode.USAGE, ExitCode.DATAERR, ExitCode.CONFIG}
SERVER = ["-m", "server"]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M)


def pod(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read(path)["spec"]["template"]["spec"]
    return found


def containers(path: Path) -> dict[str, dict[str, Any]]:
    spec = pod(path)
    return {c["name"]: c for c in [*spec.get("initContainers", []), *spec["containers"]]}


def asked(command: list[str], environ: dict[str, str]) -> Options:
    """What a sample's command line asks for; nothing is wrong with it, or odd."""
    assert command[1:3] == SERVER
    parsed = parse(command[3:], environ)
    assert not parsed.outcome.findings
    assert parsed.options is not None
    return parsed.options


def asked_in(container: dict[str, Any]) -> Options:
    environ = {entry["name"]: entry["value"] for entry in container["env"]}
    return asked([*container["command"], *container["args"]], environ)


def test_the_unit_holds_what_it_booted_and_tells_when_it_is_ready() -> None:
    environ = dict(entry.split("=", 1) for entry in unit("Environment"))
    (command,) = unit("ExecStart")
    options = asked(shlex.split(command), environ)
    assert (options.check, options.exit_after_boot) == (False, False)
    assert unit("Type") == ["notify"]
    assert options.report_file is not None
    assert unit("RuntimeDirectory") == [options.report_file.parent.name]
    assert options.report_file.parent.parent == Path("/run")
    assert [f"/var/cache/{name}" for name in unit("CacheDirectory")] == list(environ.values())


def test_what_another_try_cannot_change_is_not_tried_again() -> None:
    (codes,) = unit("RestartPreventExitStatus")
    fail = read(JOB)["spec"]["podFailurePolicy"]["rules"][0]
    assert {int(code) for code in codes.split()} == set(fail["onExitCodes"]["values"]) == FINAL
    assert fail["action"] == "FailJob"
    assert fail["onExitCodes"]["containerName"] in containers(JOB)
    assert pod(JOB)["restartPolicy"] == "Never", "a policy needs it"


def test_the_job_ends_by_itself() -> None:
    (container,) = containers(JOB).values()
    assert asked_in(container).exit_after_boot


def test_the_deployment_judges_first_and_boots_the_same_pair() -> None:
    first, second = (asked_in(c) for c in containers(DEPLOYMENT).values())
    assert first.check
    assert (second.check, second.exit_after_boot) == (False, False)
    assert (first.target, first.draft) == (second.target, second.draft)
    assert "resources" not in containers(DEPLOYMENT)["check"], "a verdict needs no GPU"


@pytest.mark.parametrize("path", [JOB, DEPLOYMENT], ids=lambda path: path.stem)
def test_every_volume_and_label_that_is_used_is_there(path: Path) -> None:
    volumes = {volume["name"] for volume in pod(path)["volumes"]}
    for container in containers(path).values():
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert "/cache" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod(path)["enableServiceLinks"] is False
    if path == DEPLOYMENT:
        spec = read(path)["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


@pytest.fixture
def live() -> Iterator[tuple[State, int]]:
    pytest.importorskip("starlette", reason="the http extra is not installed")
    pytest.importorskip("uvicorn", reason="the http extra is not installed")
    state = State(make_log())
    answering, outcome = answer(socket.create_server(("127.0.0.1", 0)), state)
    assert answering is not None, outcome
    yield state, answering.number
    answering.close()


def test_the_probes_ask_what_the_port_answers(live: tuple[State, int]) -> None:
    state, number = live
    container = containers(DEPLOYMENT)["draftgate"]
    port = str(asked_in(container).port)

    def passes(probe: str) -> bool:
        _, flag, code = container[probe]["exec"]["command"]
        assert code.count(port) == 1
        program = [sys.executable, flag, code.replace(port, str(number))]
        return subprocess.run(program, timeout=60, check=False).returncode == 0

    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    assert [passes(probe) for probe in probes] == [False, False, True]
    state.ready = True
    assert [passes(probe) for probe in probes] == [True, True, True]


def test_the_workflow_judges_the_pair_and_keeps_the_report() -> None:
    job = read(WORKFLOW)["jobs"]["judge"]
    steps = {step.get("name"): step for step in job["steps"]}
    options = asked(shlex.split(steps["Judge"]["run"]), {})
    assert options.check
    kept = next(step for step in steps.values() if "upload-artifact" in step.get("uses", ""))
    assert kept["with"]["path"] == str(options.report_file)
    assert kept["if"] == "always()"
    fetched = zip(job["env"], (options.target, options.draft), strict=True)
    lines = steps["Fetch the configs"]["run"].splitlines()
    for line, (name, file) in zip(lines, fetched, strict=True):
        assert line.startswith(f'hf download "${name}" config.json ')
        assert line.endswith(f" {file}")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks for the program, which is installed elsewhere here.
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.M)
    (tmp_path / UNIT.name).write_text(text)
    done = subprocess.run(
        [verify, "verify", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("path", [JOB, DEPLOYMENT], ids=lambda path: path.stem)
def test_kubernetes_takes_the_manifest(path: Path) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    schemas.validate(read(path), "1.31", strict=True)


def test_github_takes_the_workflow() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", str(WORKFLOW)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
