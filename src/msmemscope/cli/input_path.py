"""The PATH of a verb: what it names, or the latest run where nothing is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPTURES: Final = "msmemscope_*_ascend"
_EVENT_LOG: Final = "event_log"


def check_path(given: str | None) -> None:
    """Refuse an empty path.

    Raises:
        UsageError: It is one.
    """
    if given == "":
        message = "names nothing"
        raise UsageError(message, option="PATH", value="", accepted="a capture folder, or a dump file")


def chosen_path(given: str | None) -> tuple[Path, Sequence[Path]]:
    """Return what a command line names, and the captures in it, if it is a folder of several.

    Args:
        given: The argument; None for the latest run.

    Raises:
        UsageError: If nothing is named, and there is no run.
    """
    if given is None:
        from msmemscope.configuration import Config
        from msmemscope.launch import messages
        from msmemscope.launch.latest_runs import latest_runs

        output = Path(Config().output)
        (run,) = latest_runs(output)
        messages.note(f"the latest run: {run}")
        return (run.captures[0] if len(run.captures) == 1 else output), run.captures
    path = Path(given).expanduser()
    is_folder = path.is_dir() and path.name != _EVENT_LOG and not (path / _EVENT_LOG).is_dir()
    return path, sorted(folder for folder in path.glob(_CAPTURES) if folder.is_dir()) if is_folder else []
