"""Watching memory: `watch` names memory to watch, `remove` ends it. See `msmemscope.capture.watcher`."""

from __future__ import annotations

from msmemscope.capture.watcher import remove, watch

__all__ = ["remove", "watch"]
