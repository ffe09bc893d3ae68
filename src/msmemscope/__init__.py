"""Shows where device memory goes in AI training and inference, and what is wrong with it.

Inside a program: `import msmemscope`, then `start()`, `step()` after each training step, and `stop()`. Under the
command line `msmemscope python train.py` nothing of this is needed.

Importing this module is cheap, because it happens in training processes: it loads the native core, which begins to
follow the blocks of memory that are alive (so that `start()` can tell what was there already), and nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from msmemscope.capture.session import start, step, stop

__version__ = "0.1.0"

__all__ = ["__version__", "start", "step", "stop"]

_HOMES = dict.fromkeys(("start", "step", "stop"), "msmemscope.capture.session")


def __getattr__(name: str) -> object:
    """Resolve a public name when it is used for the first time."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _follow_from_import() -> None:
    from msmemscope.capture.attach import attach_at_import

    attach_at_import()


_follow_from_import()
