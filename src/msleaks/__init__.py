"""The older name of msmemscope: the same public names, nothing else. Results go to the older folder by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msmemscope

if TYPE_CHECKING:
    from msmemscope import *  # noqa: F403

__all__ = list(msmemscope.__all__)


def __getattr__(name: str) -> object:
    """Hand every name on."""
    return getattr(msmemscope, name)


def __dir__() -> list[str]:
    return dir(msmemscope)
