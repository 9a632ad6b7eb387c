"""Rules about the machine: devices, drivers, folders, and our own faults (6xx)."""

from server.findings import ExitCode, Rule, Severity

RULES = (
    Rule(
        id="SD601",
        name="no-device",
        summary="the device that was asked for is there",
        why="a server that fell back to another device would be slow or would not fit",
        fix="use --device cpu or --device auto, or make the device visible",
        source="https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/"
        "environment-variables.html",
        exit_code=ExitCode.UNAVAILABLE,
    ),
    Rule(
        id="SD602",
        name="device-identity",
        summary="NVML and CUDA talk about the same device",
        why="figures of another device were used in other servers to size the pool",
        fix="nothing to do: the figures of CUDA are used and those of NVML are dropped",
        source="https://github.com/vllm-project/vllm/pull/53834",
        severity=Severity.WARNING,
        exit_code=ExitCode.UNAVAILABLE,
    ),
    Rule(
        id="SD603",
        name="nvml-unavailable",
        summary="NVML answers",
        why="without NVML the device's other users and its identity are not known before CUDA",
        fix="nothing to do: the memory figures come from CUDA, or from the host",
        source="https://github.com/XuehaiPan/nvitop/pull/208",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD604",
        name="unknown-environment-variable",
        summary="every SERVER_ environment variable is one that this server reads",
        why="a misspelt variable is a setting that is silently not in force",
        fix="remove the variable, or spell it as a flag's name in upper case with SERVER_ before",
        source="https://github.com/vllm-project/vllm/blob/main/vllm/envs.py",
        severity=Severity.WARNING,
    ),
    Rule(
        id="SD605",
        name="folder-unwritable",
        summary="the folder for sample checkpoints can be written",
        why="a sample checkpoint is written once and then read like any other",
        fix="set SERVER_CACHE_DIR to a folder that can be written",
        source="https://specifications.freedesktop.org/basedir-spec/latest/",
        exit_code=ExitCode.NOINPUT,
    ),
    Rule(
        id="SD606",
        name="interrupted",
        summary="the boot runs to its end",
        why="a signal ended the boot; nothing that was loaded is kept",
        fix="start again",
        source="https://docs.python.org/3/library/signal.html",
        severity=Severity.NOTE,
    ),
    Rule(
        id="SD607",
        name="torch-unusable",
        summary="torch and safetensors can be imported, and torch can use the device",
        why="the load and everything after it needs them",
        fix="install this server's packages again, with a torch build that fits this machine's "
        "driver, or use --device cpu",
        source="https://pytorch.org/get-started/locally/",
        exit_code=ExitCode.UNAVAILABLE,
    ),
    Rule(
        id="SD608",
        name="internal-error",
        summary="this server has no fault of its own",
        why="an exception that nobody expected ended the boot",
        fix="report it with the saved traceback",
        source="https://docs.python.org/3/library/exceptions.html",
        exit_code=ExitCode.SOFTWARE,
    ),
    Rule(
        id="SD609",
        name="rank-lost",
        summary="every tensor-parallel rank can be started, and runs until the server ends",
        why="each rank holds a part of every layer, so that the others cannot go on without it",
        fix="start again; after SIGKILL the kernel's log says whether memory ran out",
        source="https://github.com/vllm-project/vllm/issues/29639",
        exit_code=ExitCode.TEMPFAIL,
    ),
    Rule(
        id="SD610",
        name="port-busy",
        summary="the port that was asked for can be opened on 127.0.0.1",
        why="after a long load another process would answer there, or none",
        fix="end the process that has it, or name another port; --port 0 takes any that is free",
        source="https://github.com/NVIDIA/TensorRT-LLM tensorrt_llm/commands/serve.py "
        "(binds before the load)",
        exit_code=ExitCode.TEMPFAIL,
    ),
    Rule(
        id="SD611",
        name="other-instance",
        summary="no other instance of this server is on the device",
        why="each sizes its pool by its own limit, and together they may ask for more than there "
        "is",
        fix="end one of them, or give each a --gpu-memory-utilization that leaves room for the "
        "other",
        source="https://man7.org/linux/man-pages/man2/flock.2.html (a lock ends with its process)",
        severity=Severity.WARNING,
    ),
    Rule(
        id="SD612",
        name="http-unusable",
        summary="the packages that answer on the port can be imported",
        why="after a long load nobody would answer on the port that was asked for",
        fix="`pip install 'draftgate[http]'` brings them; or leave --port out",
        source="https://uvicorn.dev/#usage",
        exit_code=ExitCode.UNAVAILABLE,
    ),
    Rule(
        id="SD613",
        name="process-limit",
        summary="the process may open the files and start the threads that a boot needs",
        why="a limit of the process or of its container ends the boot wherever it is met",
        fix="raise the limit on open files (ulimit -n), or that on processes and threads "
        "(ulimit -u, and pids.max of a container)",
        source="https://man7.org/linux/man-pages/man3/pthread_create.3.html (EAGAIN), "
        "https://man7.org/linux/man-pages/man2/open.2.html (EMFILE)",
        exit_code=ExitCode.UNAVAILABLE,
    ),
)
