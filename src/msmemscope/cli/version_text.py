"""The text of `msmemscope --version`: what is installed, what it was built with, and what it runs with."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Final

from msmemscope import __version__

_READ_WITH: Final = ("polars", "numpy")
_OBSERVED: Final = ("torch", "torch_npu")


def version_text() -> str:
    """Lines of text, the version in the first. Nothing but the extension is imported: versions are read from files."""
    # The extension may be what is missing: the version is said all the same.
    try:
        from msmemscope import _native
    except ImportError as error:
        built = f"no native core: {error}"
    else:
        built = f"built {_native.built_with}"
    found = {name: _version(name) for name in (*_READ_WITH, *_OBSERVED)}
    beside = [f"{name} {version}" for name, version in found.items() if version is not None]
    missing = [f"no {name}" for name in _READ_WITH if found[name] is None]
    runs = ", ".join([f"Python {platform.python_version()}", *beside, *missing])
    return f"msmemscope version {__version__}\n{built}\nruns on {platform.machine()} with {runs}\n"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
