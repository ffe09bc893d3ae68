"""The environment that makes a program load the native core."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.configuration import SETTINGS_VARIABLE
from msmemscope.launch.sanitizers import SANITIZER_OPTIONS, with_any_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.configuration import Config

CORE_LIBRARY = "lib64/libmsmemscope_core.so"
BOOTSTRAP_DIRECTORY = "bootstrap"

# Blanks and colons separate entries of LD_PRELOAD, and the dynamic linker expands $ORIGIN and the like.
_NOT_PRELOADABLE = re.compile(r"[\s:$]")


@dataclasses.dataclass(frozen=True)
class PreloadEnvironment:
    """An environment for the program, and the links that were made for it."""

    variables: dict[str, str]
    link_directory: Path | None = None
    """A private directory holding links to the package, to be removed when no process needs it any more."""


def native_directory(package: str) -> str:
    """The directory of the compiled extension, if it is not the package itself; else empty."""
    spec = importlib.util.find_spec(f"{__name__.partition('.')[0]}._native")
    origin = spec.origin if spec is not None else None
    directory = str(Path(origin).parent) if origin is not None else package
    return "" if directory == package else directory


def core_library(config: Config) -> Path | None:
    """The native core, if it was built: in the package, or beside the compiled extension."""
    for directory in filter(None, (config.package, config.native_directory)):
        path = Path(directory) / CORE_LIBRARY
        if path.is_file():
            return path
    return None


def preload_environment(config: Config, environment: Mapping[str, str]) -> PreloadEnvironment:
    """Extend an environment so that every process under it loads the native core.

    The user's own entries of the preload list and of the Python path stay, after ours.

    Args:
        config: The settings; its launch directory must exist.
        environment: The environment to extend.
    """
    core = core_library(config) or Path(config.package) / CORE_LIBRARY
    bootstrap = Path(config.package) / BOOTSTRAP_DIRECTORY
    link_directory = None
    if _NOT_PRELOADABLE.search(str(core)) or ":" in str(bootstrap):
        parent = Path(config.launch_directory)
        if not config.launch_directory or _NOT_PRELOADABLE.search(str(parent)):
            import tempfile

            link_directory = parent = Path(tempfile.mkdtemp(prefix="msmemscope_"))
        core = _linked(core.parent, parent) / core.name
        bootstrap = _linked(bootstrap, parent)
    variables = dict(environment)
    variables["LD_PRELOAD"] = _in_front(str(core), environment.get("LD_PRELOAD", ""))
    variables["PYTHONPATH"] = _in_front(str(bootstrap), environment.get("PYTHONPATH", ""))
    variables[SETTINGS_VARIABLE] = config.to_settings_text()
    variables[SANITIZER_OPTIONS] = with_any_order(environment.get(SANITIZER_OPTIONS, ""))
    return PreloadEnvironment(variables, link_directory)


def _linked(directory: Path, parent: Path) -> Path:
    """A link to a directory, in a place whose path can be preloaded."""
    link = parent / directory.name
    link.symlink_to(directory)
    return link


def _in_front(entry: str, previous: str) -> str:
    """Put an entry before a list separated by colons, once."""
    rest = [part for part in previous.split(":") if part != entry] if previous else []
    return os.pathsep.join([entry, *rest])
