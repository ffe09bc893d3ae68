"""Putting settings in force in the native core, and noting their changes in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope import _native
from msmemscope.configuration import STACK_SCOPE_FACT, StackScope
from msmemscope.errors import MsmemscopeError

if TYPE_CHECKING:
    from msmemscope.configuration import Config


def use_settings(config: Config) -> None:
    """Have the native core record by these settings from now on.

    Raises:
        MsmemscopeError: If it cannot use them.
    """
    if not _native.configure(config.to_settings_text()):
        message = "the settings cannot be used by the native core"
        raise MsmemscopeError(message, hint="shorten the output path")


def note_changes(before: Config, after: Config) -> None:
    """Note changed settings in the log as facts. If a setting has several facts, the last one holds."""
    old = dict(line.partition("=")[::2] for line in before.to_settings_text().split("\n"))
    for line in after.to_settings_text().split("\n"):
        name, _, text = line.partition("=")
        if old.get(name) != text:
            _native.note_fact(f"setting.{name}", text)
    if (before.python_stack, before.native_stack) != (after.python_stack, after.native_stack):
        scope = StackScope(_native.next_sequence(), after.python_stack, after.native_stack)
        _native.note_fact(STACK_SCOPE_FACT, scope.to_fact())
