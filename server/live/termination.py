"""The last words of a pod: why the boot ended, where `kubectl describe pod` shows it.

Kubernetes shows what a container wrote to its termination message file
(https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
"""

import os
from pathlib import Path

from server.findings import Finding, Severity
from server.render.escape import visible
from server.render.files import OF_A_CHECKPOINT, is_of_a_checkpoint
from server.report import Report

# Kubernetes mounts it into each container; elsewhere it is not there.
DEFAULT = Path("/dev/termination-log")
MAX_BYTES = 4096
_INTERRUPTED = "SD606"


def leave_message(report: Report, asked: Path | None, default: Path = DEFAULT) -> str | None:
    """Write why the boot ended to `asked`, else to `default` where it is; never raises.

    Nothing is written for a boot that succeeded. The reason in words where `asked` cannot be
    written; a `default` that cannot be written is nobody's wish.
    """
    if not report.exit_code:
        return None
    if asked and is_of_a_checkpoint(asked):
        return OF_A_CHECKPOINT
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # In place: the file is a mount, in a folder where this user may make none.
        descriptor = os.open(asked or default, flags | (os.O_CREAT if asked else 0), 0o666)
        with open(descriptor, "wb") as file:
            file.write(message(report))
    except (OSError, ValueError) as error:
        return str(error) if asked else None
    return None


def message(report: Report) -> bytes:
    """The errors (rule, message, fix) and the exit code, in at most MAX_BYTES of UTF-8.

    What does not fit is counted; the first error is cut rather than left out.
    """
    last = f"exit {report.exit_code}"
    parts = [_told(finding) for finding in report.findings if _ends(finding)]
    for kept in range(len(parts), 0, -1):
        more = [f"and {len(parts) - kept} more"] if kept < len(parts) else []
        data = "\n".join((*parts[:kept], *more, last)).encode()
        if len(data) <= MAX_BYTES:
            return data
    tail = f"...\n{last}".encode()
    head = "".join(parts[:1]).encode()[: MAX_BYTES - len(tail)]
    return head.decode(errors="ignore").encode() + tail


def _ends(finding: Finding) -> bool:
    """True for what ended the boot: each error, and the signal."""
    return finding.severity is Severity.ERROR or finding.rule == _INTERRUPTED


def _told(finding: Finding) -> str:
    head = f"{finding.severity}[{finding.rule}] {finding.name}: {visible(finding.message)}"
    return f"{head}\n  fix: {visible(finding.fix)}"
