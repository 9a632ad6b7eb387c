"""No secret is in any output; what only looks like one stays."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from server.config.values import clip
from server.redact import secrets_of, without
from server.render.escape import show, visible, word
from tests.config.drafts import NESTED
from tests.process import environment


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://user:pw@host/x@y", "https://***@host/x@y"),
        ("https://token@host", "https://***@host"),
        ("https://u:p@ss@host/x", "https://***@host/x"),
        ("https://u:p/ss@host/x", "https://***@host/x"),
        ("hf_AbCdEfGh1 x", "*** x"),
        ("(hf_abcdefghijklmnopqrst)", "(***)"),
        ("https://h/x?a=1&token=ab%20c&b=2", "https://h/x?a=1&token=***&b=2"),
        ("/x?X-Amz-Signature=ab'", "/x?X-Amz-Signature=***'"),
        ("/x?api_key=ab#c", "/x?api_key=***#c"),
        ("Authorization: Bearer ab.c", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic YTpi'}", "{'authorization': 'Basic ***'}"),
        ("authorization=ab", "authorization=***"),
        ("Bearer abcdefgh.i", "Bearer ***"),
    ],
)
def test_what_has_the_form_of_a_secret_is_left_out(text: str, told: str) -> None:
    assert without(text, ()) == told
    assert visible(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 7", '"num_speculative_tokens": 7', "mask_token=151669", "/x?max_tokens=7",
        "user@host", "http://host:8000/a@b", "https://host/a", "hf_config", "hf_quantizer",
        "sample:qwen3", "the bearer of it", "key = value", "#/tie_word_embeddings = true",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert without(text, ()) == text


def test_the_values_of_secret_variables_are_secrets() -> None:
    environ = {
        "HF_TOKEN": "abcdefgh", "db_password": "31415926", "AWS_SECRET_ACCESS_KEY": "abcdefgh/12",
        "SSH_KEY": " with spaces \n", "APIKEY2": "a-key-in-one-word",
        # No secrets: numbers, places, words, other names.
        "MAX_TOKENS": "16777216", "HF_TOKEN_PATH": "/run/token", "API_KEY": "EMPTY",
        "TOKENIZERS_PARALLELISM": "disabled", "HOME": "/home/someone",
        "KEYCLOAK_REALM": "production",
    }  # fmt: skip
    known = secrets_of(environ)
    assert set(known) == {"abcdefgh", "31415926", "abcdefgh/12", "with spaces", "a-key-in-one-word"}
    assert known.index("abcdefgh/12") < known.index("abcdefgh")
    assert without("abcdefgh/12, abcdefgh, 7", known) == "***, ***, 7"


@pytest.mark.parametrize("before", range(0, 140, 5))
def test_no_part_of_a_secret_is_left_where_a_text_is_cut(before: int) -> None:
    text = "x" * before + " hf_" + "Ab1" * 12 + " https://me:" + "q" * 30 + "@h " + "y" * 900
    shown = f"{show(text)} {word(text)} {clip(text)}"
    assert "Ab1" not in shown
    assert "qq" not in shown


@pytest.mark.parametrize(
    "part", ["://a:b", "://", "?a", "hf_a", "hf_", "authorization: ", "bearer ", "a", "://@"]
)
def test_a_hostile_text_takes_no_longer_than_its_length(part: str) -> None:
    text = part * 300_000 + "token="
    assert without(text, ())  # a quadratic search would run into the time limit of the tests


QUOTED = 'p"a ss\\w\u20ac rd'
ENV = {"HF_TOKEN": "plainEnvSecret", "MY_PASSWORD": QUOTED}
SECRETS = (
    "hunter2",
    "querySecret",
    "FileSecret",
    "plainEnvSecret",
    "ss\\w",
    "ss\\\\w",
    "\u20ac rd",
)
ADDRESS = "https://me:hunter2@host/m?token=querySecret1"
# Runs the server with a draft reader that fails and tells secrets.
_CRASH = """
import os, sys
import server.gate
from server.__main__ import main
def explode(*_): raise KeyError(os.environ["MY_PASSWORD"] + " " + os.environ["HF_TOKEN"])
if "crash" in sys.argv: server.gate.read_draft_config = explode
sys.exit(main())
"""


def outputs(cache: Path, *arguments: str) -> str:
    """All that a run prints and writes."""
    files = ["--report-file", "report.json", "--junit-file", "junit.xml"]
    files += ["--report-html", "report.html", "--termination-log", "last.words"]
    done = subprocess.run(
        [sys.executable, "-c", _CRASH, *arguments, *files],
        env=environment(cache, ENV),
        cwd=cache,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    written = [path.read_text() for path in cache.glob("*.*") if path.name != "config.json"]
    assert written or "--print-config" in arguments
    return "\n".join([done.stdout, done.stderr, *written])


FORMATS = ("text", "json", "jsonl", "github", "junit")
RUNS = [
    *(("--verbose", "--output-format", form) for form in FORMATS),
    ("--concise",),
    ("--target", "crash"),
    ("--print-config",),
    ("--print-config", "--output-format", "json"),
]


@pytest.mark.parametrize("arguments", RUNS, ids=" ".join)
def test_no_output_has_a_secret(tmp_path: Path, arguments: Sequence[str]) -> None:
    draft = NESTED | {
        "hidden_size": "hf_FileSecret0123456789", "model_type": f"x {QUOTED} x",
        f"unread {ENV['HF_TOKEN']}": [QUOTED, {"a": ENV["HF_TOKEN"]}], "head_dim": ADDRESS,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(draft))
    models = () if "crash" in arguments else ("--target", ADDRESS, "--revision", QUOTED)
    told = outputs(tmp_path, "--draft", "config.json", *models, *arguments)
    assert "***" in told
    assert [secret for secret in SECRETS if secret in told] == []
