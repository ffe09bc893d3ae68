"""A library in a process that runs already: it is loaded there, and begins. `native/offline/remote_call/` says how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import MsmemscopeError

if TYPE_CHECKING:
    from msmemscope.launch.attaching.target_process import TargetProcess

_PATIENCE_S: Final = 5.0
"""For a thread that is safe to stop."""
RECORD: Final = "msmemscope_attach"
RUN: Final = "msmemscope_run"
"""Functions of the library: record until it is told to stop; run one piece of Python."""
_STATUSES: Final = {
    1: "there is no Python in it, or it has not begun or is ending",
    2: "the path of the folder for temporary files is too long",
    3: "somebody is attached to it already",
    4: "it can start no further thread",
    5: "it cannot read the folder for temporary files",
}
"""Of the functions in native/attach/run_in_process.cpp."""
_CALLED: Final = "called"
_MESSAGES: Final[dict[str, tuple[str, str | None]]] = {
    "refused": (
        "process {process} may not be traced",
        (
            "a container needs --cap-add=SYS_PTRACE; elsewhere sysctl kernel.yama.ptrace_scope=0, or run msmemscope as "
            "root; nobody else may trace it at the same time"
        ),
    ),
    "ended": ("process {process} has ended", None),
    "no moment": (
        f"process {{process}} gave no safe moment within {_PATIENCE_S:.0f} s",
        "no thread of it waits or evaluates Python code, or it is stopped; try again",
    ),
    "no loader": ("process {process} cannot load libraries: it is linked statically", None),
    "not loaded": ("process {process} could not load {library}", "is that file readable for the process?"),
    "no function": ("{library} has no function for attaching", "is this msmemscope installed as a whole?"),
    "broken": ("a call in process {process} did not return: {status}", "please report this: msmemscope bug-report"),
    "interrupted": ("process {process} was left alone: interrupted", None),
}
"""Messages and hints for each outcome; the words are those of `_native.load_and_call`."""
YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
OWN_STATUS: Final = Path("/proc/self/status")
_MAY_TRACE: Final = 1 << 19
"""CAP_SYS_PTRACE among the effective capabilities."""


class AttachError(MsmemscopeError):
    """A process could not be attached to; it goes on as it was."""


def load_and_call(target: TargetProcess, library: Path, function: str, argument: str) -> float:
    """Load the library into a process and have it begin.

    Args:
        target: The process.
        library: `libmsmemscope_attach.so`.
        function: RECORD or RUN.
        argument: Of the function: the path of a folder.

    Returns:
        The seconds for which one thread of the process stood still.

    Raises:
        AttachError: It could not be done. The process goes on.
    """
    from msmemscope import _native

    word, status, stopped_s = _native.load_and_call(
        target.process_id, str(library), function, argument, patience_s=_PATIENCE_S
    )
    if word != _CALLED:
        message, hint = _MESSAGES[word]
        reason = f"signal {status}" if status else "it takes too long"
        raise AttachError(message.format(process=target.process_id, library=library, status=reason), hint=hint)
    if status:
        message = f"process {target.process_id} was left alone: {_STATUSES.get(status, f'status {status}')}"
        raise AttachError(message)
    return stopped_s


def why_nobody_may_trace() -> str | None:
    """Say why this user may trace no process that runs already; None if nothing is known that forbids it."""
    try:
        scope = int(YAMA.read_text(encoding="ascii"))
        status = OWN_STATUS.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):
        return None
    capabilities = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    if scope == 0 or (scope < 3 and int(capabilities, 16) & _MAY_TRACE):  # noqa: PLR2004 - 3: nobody, not even root
        return None
    who = "user " + str(os.geteuid())
    return f"kernel.yama.ptrace_scope is {scope}, and {who} has no CAP_SYS_PTRACE"
