"""Shows where device memory goes in AI training and inference, and what is wrong with it.

Inside a program: `import msmemscope`, then `config()` to choose what is collected, `start()`, `step()` after each
training step, and `stop()`. Under the command line `msmemscope python train.py` nothing of this is needed.

Importing this module is cheap, because it happens in training processes. It loads the native core and nothing else. The
core follows the live blocks of memory from then on, so that `start()` can tell what was there already.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from msmemscope import analyzer, describe, tracer, watcher
    from msmemscope.analyzer import analyze, check_inefficient, check_leaks, get_analyzer_config, list_analyzers
    from msmemscope.capture.collection import collect
    from msmemscope.capture.framework_hooks import cleanup_framework_hooks, init_framework_hooks
    from msmemscope.capture.holders import who_holds
    from msmemscope.capture.npu_sanitizer import enable_npu_sanitizer
    from msmemscope.capture.record_function import RecordFunction
    from msmemscope.capture.session import config, start, step, stop
    from msmemscope.capture.snapshot import TakeSnapshot, take_snapshot
    from msmemscope.capture.watcher import remove
    from msmemscope.formats.reading import load, load_all
    from msmemscope.formats.scanning import scan
    from msmemscope.recording.recording import Recording

__version__ = "0.2.0"

__all__ = [
    "RecordFunction",
    "Recording",
    "TakeSnapshot",
    "__version__",
    "analyze",
    "analyzer",
    "check_inefficient",
    "check_leaks",
    "cleanup_framework_hooks",
    "collect",
    "config",
    "describe",
    "enable_npu_sanitizer",
    "get_analyzer_config",
    "init_framework_hooks",
    "list_analyzers",
    "load",
    "load_all",
    "remove",
    "scan",
    "start",
    "step",
    "stop",
    "take_snapshot",
    "tracer",
    "watcher",
    "who_holds",
]

_HOMES = {
    "RecordFunction": "msmemscope.capture.record_function",
    "Recording": "msmemscope.recording.recording",
    "TakeSnapshot": "msmemscope.capture.snapshot",
    "analyze": "msmemscope.analyzer",
    "analyzer": "",
    "check_inefficient": "msmemscope.analyzer",
    "check_leaks": "msmemscope.analyzer",
    "cleanup_framework_hooks": "msmemscope.capture.framework_hooks",
    "collect": "msmemscope.capture.collection",
    "config": "msmemscope.capture.session",
    "describe": "",
    "enable_npu_sanitizer": "msmemscope.capture.npu_sanitizer",
    "get_analyzer_config": "msmemscope.analyzer",
    "init_framework_hooks": "msmemscope.capture.framework_hooks",
    "list_analyzers": "msmemscope.analyzer",
    "load": "msmemscope.formats.reading",
    "load_all": "msmemscope.formats.reading",
    "remove": "msmemscope.capture.watcher",
    "scan": "msmemscope.formats.scanning",
    "start": "msmemscope.capture.session",
    "step": "msmemscope.capture.session",
    "stop": "msmemscope.capture.session",
    "take_snapshot": "msmemscope.capture.snapshot",
    "tracer": "",
    "watcher": "",
    "who_holds": "msmemscope.capture.holders",
}
"""Public name to the module that has it; a name without one is a module of this package."""


def __getattr__(name: str) -> object:
    """Resolve a public name when it is used for the first time."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    import importlib

    home = _HOMES[name]
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"{__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _follow_from_import() -> None:
    from msmemscope.capture.attach import attach_at_import

    attach_at_import()


_follow_from_import()
