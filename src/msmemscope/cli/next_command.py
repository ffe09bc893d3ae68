"""The command that naturally follows an answer: one line for people who read it on a terminal.

Scripts never see it: it is written where both stdout and stderr are terminals, and to stderr. The words are those of the
summary at the end of a run.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from msmemscope.launch import messages

if TYPE_CHECKING:
    from collections.abc import Sequence


def name_next_command(command: str, paths: Sequence[str | None]) -> None:
    """Say what to type next; nothing where nobody reads along.

    Args:
        command: Without `msmemscope` and PATH: `tree --of=leaked`; empty if there is nothing to say.
        paths: The paths that it is about, as they were typed; nothing, or None, for the latest run.
    """
    if command and sys.stdout.isatty() and sys.stderr.isatty():
        sys.stdout.flush()
        words = command.split()
        verbs = [word for word in words if not word.startswith("--")]
        typed = [shlex.quote(path) for path in paths if path]
        messages.next_command(" ".join(["msmemscope", *verbs, *typed, *words[len(verbs) :]]))
