"""Sleep modes of inference frameworks are observed as soon as the program uses such a framework, and nothing is loaded before."""

from __future__ import annotations

import sys

from msmemscope.capture.import_hook import whenever_imported

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from msmemscope.capture.import_hook import EndWatch

PACKAGES = ("vllm", "vllm_ascend")
"""Frameworks that have a sleep mode, by their top-level modules."""

_watches: list[EndWatch] = []


def observe_sleep_modes() -> None:
    """Hook sleep modes now if the program has such a framework already, else as soon as it imports one."""
    if any(package in sys.modules for package in PACKAGES):
        _hook()
    elif not _watches:
        _watches.extend(whenever_imported(package, _hook) for package in PACKAGES)


def leave_sleep_modes() -> None:
    """Give back the hooked functions, and wait no more."""
    while _watches:
        _watches.pop()()
    frameworks = sys.modules.get("msmemscope.capture.frameworks.automatic")
    if frameworks is not None:
        frameworks.disable_sleep_hooks()


def _hook() -> None:
    from msmemscope.capture.frameworks.automatic import enable_sleep_hooks

    enable_sleep_hooks()
