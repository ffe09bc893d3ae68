"""The folder over which we and the library in the process talk: pieces of Python, a lock, and what came of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BEGIN: Final = """\
import json, os, sys
status = {{}}
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "msmemscope":
            from importlib.util import spec_from_file_location
            folders = {folders!r}
            return spec_from_file_location(name, folders[0] + "/__init__.py", submodule_search_locations=folders)
try:
    if sys.version_info[:2] != {version!r}:
        raise RuntimeError("it runs Python %d.%d" % sys.version_info[:2])
    sys.meta_path.insert(0, Finder)
    try:
        import msmemscope
    finally:
        sys.meta_path.remove(Finder)
    from msmemscope.capture.session import session
    if session.is_tracing:
        raise RuntimeError("it collects by itself: it has called msmemscope.start()")
    session.writes_results = False
    msmemscope.config(**{settings!r})
    from msmemscope.capture.older_blocks import follow_older_blocks
    follow_older_blocks()
    msmemscope.start()
except RuntimeError as error:
    status["error"] = str(error)
except BaseException as error:
    status["error"] = "%s: %s" % (type(error).__name__, error)
{report}
"""
"""Runs in the process, in a thread of its own. Whatever goes wrong is told to us, and nothing is printed there."""
_END: Final = """\
import json, os
status = {{}}
try:
    import msmemscope
    from msmemscope import _native
    msmemscope.stop()
    status["directory"] = _native.capture_directory()
except BaseException as error:
    status["error"] = "%s: %s" % (type(error).__name__, error)
{report}
"""
_ORDER: Final = """\
import json, os, sys
status = {{}}
try:
    if "msmemscope" not in sys.modules and "MSMEMSCOPE_SETTINGS" not in os.environ:
        raise RuntimeError("it does not record")
    import msmemscope
    from msmemscope import _native
    {statement}
    status["directory"] = _native.capture_directory()
except (RuntimeError, ValueError) as error:
    status["error"] = str(error)
except BaseException as error:
    status["error"] = "%s: %s" % (type(error).__name__, error)
{report}
"""
_REPORT: Final = """\
try:
    with open({name!r} + ".part", "w") as file:
        json.dump(status, file)
    os.replace({name!r} + ".part", {name!r})
except OSError:
    pass
"""
_REPORT_PLACE: Final = "# report"
_BEGUN: Final = "begun.json"
_ENDED: Final = "ended.json"
_STOP: Final = "stop"
_MOST_STATUS_BYTES: Final = 1 << 16


def recording(user_id: int, settings: Mapping[str, str], folders: Sequence[str], version: tuple[int, int]) -> Exchange:
    """Return the exchange with a process that records from now on, and until it is told to stop.

    Args:
        user_id: Of the process.
        settings: Keyword arguments of `msmemscope.config`.
        folders: The folder of the package, and that of the compiled extension if it is another one.
        version: Of the Python that this msmemscope was built for: `(3, 11)`.
    """
    values = {"settings": dict(settings), "folders": [*folders], "version": version}
    return Exchange(user_id, _BEGIN.format(**values, report=_REPORT_PLACE), _END.format(report=_REPORT_PLACE))


def order(user_id: int, statement: str) -> Exchange:
    """Return the exchange with a process that records, and runs one statement.

    Args:
        user_id: Of the process.
        statement: Of Python; `msmemscope` is imported.
    """
    return Exchange(user_id, _ORDER.format(statement=statement, report=_REPORT_PLACE), None)


class Exchange:
    """A folder that the process can read and write.

    Args:
        user_id: Of the process.
        begin: Python code that runs there at once, with `{report}` where it says what came of it.
        end: The same for code that runs when it is told to stop; None where nothing is waited for.
    """

    def __init__(self, user_id: int, begin: str, end: str | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="msmemscope-attach-"))
        self._write_code("begin.py", begin.replace(_REPORT_PLACE, _REPORT.format(name=str(self.folder / _BEGUN))))
        if end is not None:
            self._write_code("end.py", end.replace(_REPORT_PLACE, _REPORT.format(name=str(self.folder / _ENDED))))
        self._write("alive", "")
        self._lock = os.open(self.folder / "alive", os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # free as soon as we are gone
        if user_id != os.geteuid():
            # The folder comes last: from then on its new owner can put links there.
            for path in (*self.folder.iterdir(), self.folder):
                os.chown(path, user_id, -1, follow_symlinks=False)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def _write_code(self, name: str, code: str) -> None:
        """As one statement, with a namespace of its own."""
        self._write(name, f"exec({code!r}, {{}})\n")

    @property
    def begun(self) -> dict[str, Any] | None:
        """The outcome of the begin; None before it."""
        return self._status(_BEGUN)

    @property
    def ended(self) -> dict[str, Any] | None:
        """The outcome of the end; None before it."""
        return self._status(_ENDED)

    def _status(self, name: str) -> dict[str, Any] | None:
        try:
            # The process can put anything there: no link is followed, and no pipe is waited for.
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                content = (
                    json.loads(file.read(_MOST_STATUS_BYTES)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else {}
                )
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else {}

    def stop(self) -> None:
        """Have the process end its part."""
        with contextlib.suppress(OSError):
            os.close(os.open(self.folder / _STOP, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC))

    def close(self) -> None:
        """Remove the folder; a thread in the process that finds it gone ends as well."""
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)
