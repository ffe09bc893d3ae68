"""`msmemscope completion SHELL`: what a shell needs to complete command lines of msmemscope."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


class CompletionCommand:
    """Print a script that completes verbs, options and their values; behind a program, what that program's own would.

    bash: source <(msmemscope completion bash), in ~/.bashrc. zsh: msmemscope completion zsh > a file _msmemscope in a
    folder of fpath. fish: msmemscope completion fish > ~/.config/fish/completions/msmemscope.fish. The script asks
    nothing while you type; write it again after an update.
    """

    name = "completion"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print it."""
        from msmemscope.cli import typed_words
        from msmemscope.cli.completion_scripts import SCRIPTS

        sys.stdout.write(SCRIPTS[arguments.shell](typed_words.options(), typed_words.verbs()))
        return 0
