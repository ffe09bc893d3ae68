"""The older name of msmemscope: the same public names, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msmemscope

if TYPE_CHECKING:
    from msmemscope import __version__, start, step, stop

__all__ = ["__version__", "start", "step", "stop"]


def __getattr__(name: str) -> object:
    """Hand every name on."""
    return getattr(msmemscope, name)


def __dir__() -> list[str]:
    return dir(msmemscope)
