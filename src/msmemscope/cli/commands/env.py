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

    Programs without Python cannot say when to collect. With options behind `--`, every program of the shell collects from
    its beginning as they say: eval "$(msmemscope env -- --device=npu)". There is no launcher to write the results of
    these: `msmemscope recover DIR` does, with the output folder.
    """

    name = "env"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument("--unset", action="store_true", help="print the lines that take it back")
        parser.add_argument(
            "options",
            nargs="*",
            metavar="-- option",
            help="collect in every program, as these options of msmemscope say",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Print one line per variable."""
        from msmemscope.configuration import SETTINGS_VARIABLE, Config
        from msmemscope.errors import MsmemscopeError
        from msmemscope.launch.preload import core_library, native_directory
        from msmemscope.launch.preload_lines import preload_variables, without_ours

        package = Config().package
        core = core_library(Config(native_directory=native_directory(package)))
        if core is None:
            message = "the native library is missing: nothing can be preloaded"
            raise MsmemscopeError(message, hint="msmemscope doctor says what to do")
        folder = Path(os.path.normpath(core.parent))
        choose = without_ours if arguments.unset else preload_variables
        lines = [
            f"export {name}={shlex.quote(value)}" if value else f"unset {name}"
            for name, value in choose(folder, os.environ).items()
        ]
        if arguments.options:
            settings = self._settings(arguments.options, native_directory(package))
            lines.append(f"export {SETTINGS_VARIABLE}={shlex.quote(settings)}")
        elif arguments.unset:
            lines.append(f"unset {SETTINGS_VARIABLE}")
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return 0

    @staticmethod
    def _settings(options: list[str], native_folder: str) -> str:
        """Return the settings of every program of the shell, as the options say.

        Raises:
            UsageError: If an option or a value is not accepted, or something is no option.
        """
        from msmemscope.cli.arguments import LaunchRequest, parse_command_line
        from msmemscope.configuration import Config, new_session, with_options
        from msmemscope.errors import UsageError

        request = parse_command_line(options)
        if not isinstance(request, LaunchRequest) or request.program:
            message = "only options of collection can follow --"
            raise UsageError(message, value=" ".join(options), hint='eval "$(msmemscope env -- --device=npu)"')
        names = frozenset(one.option.name for one in request.given)
        base = Config(session=new_session(), native_directory=native_folder, on_command_line=names)
        return with_options(base, request.given).to_settings_text()
