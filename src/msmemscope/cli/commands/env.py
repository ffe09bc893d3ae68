"""`msmemscope env`: the lines that make a shell's programs observable without the launcher."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


class EnvCommand:
    """Print the lines that preload msmemscope into every program of a shell.

    For programs that decide themselves when to collect (msmemscope.start() and stop()) and are not started with
    `msmemscope program`. In the shell: eval "$(msmemscope env)". They hold until eval "$(msmemscope env --unset)"; what
    LD_PRELOAD and LD_LIBRARY_PATH held before stays.
    """

    name = "env"
    summary = "Print the lines that preload msmemscope into a shell's programs."

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument("--unset", action="store_true", help="print the lines that take it back")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print one line per variable."""
        from msmemscope.capture.preload import core_library, native_directory
        from msmemscope.capture.preload_lines import preload_variables, without_ours
        from msmemscope.config import Config
        from msmemscope.errors import MsmemscopeError

        package = Config().package
        core = core_library(Config(native_directory=native_directory(package)))
        if core is None:
            message = "the native library is missing: nothing can be preloaded"
            raise MsmemscopeError(message, hint="msmemscope doctor says what to do")
        folder = Path(os.path.normpath(core.parent))
        choose = without_ours if arguments.unset else preload_variables
        for name, value in choose(folder, os.environ).items():
            sys.stdout.write(f"export {name}={shlex.quote(value)}\n" if value else f"unset {name}\n")
        return 0
