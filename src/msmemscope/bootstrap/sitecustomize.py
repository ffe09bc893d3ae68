"""The code that every Python under the launcher runs first.

The launcher puts this folder in front of PYTHONPATH, and Python imports `sitecustomize` at its start. The folder
leaves `sys.path` at once, and the `sitecustomize` of the program's own environment, if there is one, takes its place.
"""

import os
import sys


def _begin():
    lines = os.environ.get("MSMEMSCOPE_SETTINGS", "").split("\n")
    settings = dict(line.partition("=")[::2] for line in lines)
    package = settings.get("package")
    if not package or "msmemscope" in sys.modules or _is_left_out(settings):
        return
    finder = _FinderByPlace([package, *filter(None, [settings.get("native_directory")])])
    sys.meta_path.insert(0, finder)
    try:
        import msmemscope  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
    try:
        from msmemscope.capture.launched import begin
    except BaseException:
        sys.modules.pop("msmemscope", None)
        raise
    begin(settings)


def _is_left_out(settings):
    if not settings.get("ranks") and not settings.get("sample_ranks"):
        return False
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        from rank_choice import is_left_out
    finally:
        del sys.path[0]
        sys.modules.pop("rank_choice", None)
    return is_left_out(settings, os.environ)


class _FinderByPlace:
    """Finds the package by its place and not by sys.path: this may be another environment, whose modules must not see ours."""

    def __init__(self, folders):
        self._folders = folders

    def find_spec(self, name, _path=None, _target=None):
        if name != "msmemscope":
            return None
        # Not importlib.util, which takes as long to import as all of us.
        from importlib.machinery import ModuleSpec, SourceFileLoader

        path = os.path.join(self._folders[0], "__init__.py")
        spec = ModuleSpec(name, SourceFileLoader(name, path), origin=path, is_package=True)
        spec.submodule_search_locations[:] = self._folders
        spec.has_location = True
        return spec


def _leave_path():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]


def _run_the_programs_own():
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


_leave_path()
try:
    _begin()
except Exception as error:
    version = ".".join(map(str, sys.version_info[:2]))
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from stderr_line import write_line

    del sys.path[0]
    write_line(f"this Python {version} process is observed without operators and Python stacks: {error}")
_run_the_programs_own()
