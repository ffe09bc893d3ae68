"""The older name of `msmemscope.describe`."""

from __future__ import annotations

from msmemscope.describe import describer

__all__ = ["describer"]
