"""What every Python under the launcher runs first.

The launcher puts this folder in front of PYTHONPATH, and Python imports `sitecustomize` at its start. The folder
leaves `sys.path` at once, and the `sitecustomize` of the program's own environment, if there is one, takes its place.
"""

import os
import sys


def _begin():
    lines = os.environ.get("MSMEMSCOPE_SETTINGS", "").split("\n")
    settings = dict(line.partition("=")[::2] for line in lines)
    package = settings.get("package")
    if not package or "msmemscope" in sys.modules:
        return
    import importlib.util

    # By its place and not by sys.path: this may be another environment, whose modules must not see ours.
    spec = importlib.util.spec_from_file_location(
        "msmemscope",
        os.path.join(package, "__init__.py"),
        submodule_search_locations=[package, *filter(None, [settings.get("native_directory")])],
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["msmemscope"] = module
    try:
        spec.loader.exec_module(module)
        from msmemscope.capture.launched import begin
    except BaseException:
        sys.modules.pop("msmemscope", None)
        raise
    begin(settings)


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
