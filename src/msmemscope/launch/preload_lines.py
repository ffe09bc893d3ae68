"""The environment of a shell in which every program loads the native core, by the names that CANN's users know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import MsmemscopeError
from msmemscope.launch.sanitizers import SANITIZER_OPTIONS, with_any_order, without_any_order

if TYPE_CHECKING:
    from collections.abc import Mapping

HOOK_LIBRARIES: Final = ("libleaks_ascend_hal_hook.so", "libascend_mstx_hook.so", "libascend_kernel_hook.so")
"""Libraries to preload. All of them load the same core; torch_npu and MindSpore look for the last of these names."""

ATB_LIBRARIES: Final = {"cxx_abi_0": "libatb_abi_0_hook.so", "cxx_abi_1": "libatb_abi_1_hook.so"}
"""Folder of ATB to the library for its C++ ABI."""

_ATB_VARIABLE: Final = "ATB_HOME_PATH"
_PRELOAD: Final = "LD_PRELOAD"
_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
# LD_PRELOAD takes blanks for separators as well as colons, and has no way to escape either.
_PRELOAD_SEPARATORS: Final = re.compile(r"[\s:]")
_NOT_PRELOADABLE: Final = re.compile(r"[\s:$]")


def preload_variables(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return LD_PRELOAD and LD_LIBRARY_PATH with our libraries in front, each once, and the variable of sanitizers.

    Args:
        folder: The folder lib64 of the package.
        environment: The variables that they are added to; may have them already.

    Raises:
        MsmemscopeError: A library is missing, or the folder's name cannot stand in LD_PRELOAD.
    """
    names = (*HOOK_LIBRARIES, *_atb_libraries(environment.get(_ATB_VARIABLE, "")))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        message = f"{folder} lacks {', '.join(missing)}"
        raise MsmemscopeError(message, hint="install msmemscope again (pip install --force-reinstall msmemscope)")
    if _NOT_PRELOADABLE.search(str(folder)):
        message = f"LD_PRELOAD cannot name a path with blanks, colons or dollar signs: {folder}"
        raise MsmemscopeError(message, hint="install msmemscope elsewhere, or use msmemscope program, which can do it")
    others = without_ours(folder, environment)
    return {
        _PRELOAD: ":".join([*(str(folder / name) for name in names), *filter(None, [others[_PRELOAD]])]),
        _LIBRARY_PATH: ":".join([str(folder), *filter(None, [others[_LIBRARY_PATH]])]),
        SANITIZER_OPTIONS: with_any_order(others[SANITIZER_OPTIONS]),
    }


def without_ours(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the same variables as they were before; empty texts where nothing is left."""
    preloaded = _PRELOAD_SEPARATORS.split(environment.get(_PRELOAD, ""))
    searched = environment.get(_LIBRARY_PATH, "").split(":")
    return {
        _PRELOAD: ":".join(entry for entry in preloaded if entry and Path(entry).parent != folder),
        _LIBRARY_PATH: ":".join(entry for entry in searched if not entry or Path(entry) != folder),
        SANITIZER_OPTIONS: without_any_order(environment.get(SANITIZER_OPTIONS, "")),
    }


def _atb_libraries(atb_home: str) -> tuple[str, ...]:
    """The library for the ABI that ATB's own variable names; both where it names none."""
    chosen = ATB_LIBRARIES.get(Path(atb_home).name) if atb_home else None
    return (chosen,) if chosen is not None else tuple(ATB_LIBRARIES.values())
