"""Rules about flags and environment variables (7xx). All are checked before any file is read."""

from server.findings import ExitCode, Rule

_OUR_RULE = "rule of this server: a flag that nothing reads is refused, never dropped"

RULES: tuple[Rule, ...] = (
    Rule(
        id="SD701",
        name="flag-needs-draft",
        summary="a flag about drafting is given together with --draft",
        why="without a draft nothing reads the flag, and the server would run without speculation",
        fix="add --draft NAME|PATH, or leave the flag out",
        source="https://github.com/sgl-project/sglang/issues/36528",
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD703",
        name="flag-unknown",
        summary="every argument is a flag of this server, or the value of one",
        why="an argument that nothing reads would leave a default in force without a word",
        fix="python -m server --help lists the flags",
        source=_OUR_RULE,
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD704",
        name="flag-value",
        summary="every flag has a value of its kind, and --target is given",
        why="no value is guessed, rounded or clamped in place of the one that was typed",
        fix="python -m server --help shows what each flag takes",
        source=_OUR_RULE,
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD705",
        name="flags-conflict",
        summary="one setting has one value, and no two settings exclude each other",
        why="one of the two would win in silence, and it may not be the one that was meant",
        fix="keep one of the two",
        source=_OUR_RULE,
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD706",
        name="environment-value",
        summary="a SERVER_* variable has a value that its flag would take",
        why="a variable that is dropped when it cannot be read leaves a default in force instead",
        fix="correct the variable, or unset it",
        source=(
            "https://github.com/sgl-project/mini-sglang python/minisgl/env.py "
            "(a value that cannot be read is dropped there)"
        ),
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD707",
        name="report-file-unwritable",
        summary="the files named by --report-file, --report-html and --junit-file can be written",
        why="a CI job would read an old report, or none, and take it for this boot's",
        fix="name a file in a folder that exists and that this user may write",
        source="rule of this server: an output that was asked for and cannot be made is a fault",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        id="SD708",
        name="flag-needs-plan",
        summary="a flag about a plan is given together with --plan",
        why="a boot takes the device that is there and measures it, and would not read the flag",
        fix="add --plan, or leave the flag out",
        source=_OUR_RULE,
        exit_code=ExitCode.USAGE,
    ),
    Rule(
        id="SD709",
        name="world-size-mismatch",
        summary="where torchrun starts the ranks, they are as many as --tensor-parallel-size says",
        why="ranks that disagree about their number wait for each other for ever",
        fix="start as many processes (torchrun --nnodes, --nproc-per-node) as there are ranks",
        source="https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables",
        exit_code=ExitCode.USAGE,
    ),
)
