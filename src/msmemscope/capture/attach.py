"""Attaching the native core to this process, as early and as cheaply as possible."""

from __future__ import annotations

import os
import sys


def attach_at_import() -> None:
    """Load the native core and let it follow live blocks, unless this is our own command line.

    Never raises: a program that imports msmemscope must start also where the core cannot be loaded.
    """
    if _is_own_command_line():
        return
    try:
        from msmemscope import _native
    except ImportError as error:
        from msmemscope.bootstrap.stderr_line import write_line

        write_line(f"nothing can be observed in this process: {error}")
        return
    if not _native.is_configured() and not _is_left_out():
        _native.follow_live_blocks()


def _is_left_out() -> bool:
    """Whether the launcher was to observe certain ranks, and this process has another one."""
    # By its name: the owner of the variable, the configuration, takes longer to import than all of this.
    return was_not_chosen(os.environ.get("MSMEMSCOPE_SETTINGS", ""))


def was_not_chosen(settings_text: str) -> bool:
    """Whether settings choose ranks, and this process has another one; one without a rank is observed."""
    if "ranks=" not in settings_text:
        return False
    from msmemscope import _native

    return _native.is_left_out(settings_text, [f"{name}={value}" for name, value in os.environ.items()])


def _is_own_command_line() -> bool:
    """Whether this interpreter was started to run msmemscope itself."""
    words = sys.orig_argv
    if len(words) > 1 and os.path.basename(words[1]) in {"msmemscope", "msleaks"}:  # noqa: PTH119 - pathlib is not loaded here
        return True
    return any(words[index] == "-m" and words[index + 1] == "msmemscope" for index in range(1, len(words) - 1))
