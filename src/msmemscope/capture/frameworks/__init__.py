"""Hooks in training and inference frameworks: labels for the memory of their phases, and snapshots around them.

Which functions of which versions: `targets` and the files of the frameworks beside it. How a function of somebody else
is wrapped and given back: `patching` and `places`. `control` is the public part, `automatic` what happens by itself.
"""

from __future__ import annotations

from msmemscope.capture.frameworks.control import cleanup_framework_hooks, init_framework_hooks

__all__ = ["cleanup_framework_hooks", "init_framework_hooks"]
