"""The older name of `msmemscope.watcher`."""

from __future__ import annotations

from msmemscope.watcher import remove, watch

__all__ = ["remove", "watch"]
