"""`msmemscope mcp`: the questions as tools for coding agents."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    import argparse

_SDK: Final = "mcp"
_FIRST_VERSION: Final = 2
"""Servers of the SDK before that are made in another way; pyproject.toml says the same."""


class McpCommand:
    """Offer the questions as tools to a coding agent, over the Model Context Protocol on stdin and stdout.

    An agent starts this command by itself; docs/agents.md says how it is registered. It ends when its stdin ends.
    Nothing is written to disk. Needs `pip install 'msmemscope[mcp]'`.
    """

    name = "mcp"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Take no arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve until stdin ends."""
        del arguments
        _check_sdk()
        from msmemscope.agent.server import serve

        serve()
        return 0


def _check_sdk() -> None:
    """Refuse to begin without the SDK.

    Raises:
        UsageError: It is not installed, or too old.
    """
    hint = "pip install 'msmemscope[mcp]'"
    if importlib.util.find_spec(_SDK) is None:
        message = f"msmemscope mcp needs the package mcp, which is not installed for {sys.executable}"
        raise UsageError(message, hint=hint)
    from importlib.metadata import version as version_of

    version = version_of(_SDK)
    if int(version.partition(".")[0]) < _FIRST_VERSION:
        message = f"msmemscope mcp needs the package mcp {_FIRST_VERSION} or later, {version} is installed"
        raise UsageError(message, hint=hint)
