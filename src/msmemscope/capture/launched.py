"""The first moments of a Python process under the launcher.

Most Python processes never allocate a tensor. So as little as possible is imported here: the session begins when the
program imports torch, or at once where it traces function calls.
"""

from __future__ import annotations

import sys

from msmemscope.capture.import_hook import when_imported

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping


def begin(settings: Mapping[str, str]) -> None:
    """Begin the session now or with torch.

    Args:
        settings: The lines of the settings text.
    """
    from msmemscope import _native

    _native.note_fact("observed.python", sys.version.partition(" ")[0])
    if settings.get("collect_mode") != "immediate":
        return  # start() begins it
    if "traceback" in settings.get("events", "").split(","):
        _begin_session()
        return
    # Allocations during the import of torch itself have Python stacks too; the rest waits for its end.
    if settings.get("python_stack_depth", "0") != "0":
        _native.collect_python_stacks(True)
    when_imported("torch", _begin_session)


def _begin_session() -> None:
    """Runs in the middle of the program's own imports, which must succeed whatever happens here."""
    try:
        from msmemscope.capture.session import begin_launched

        begin_launched()
    except Exception as error:  # noqa: BLE001 - see above
        from msmemscope import _native

        _native.warn(f"operators and functions are not collected: {type(error).__name__}: {error}")
