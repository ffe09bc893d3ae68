"""The command ``vnpu``: run a program on the virtual NPU, print its environment, say what is there."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import virtual_npu

from .compiled_kernels import cache_folder, find_compiler, library_path
from .configuration import MOST_DEVICES, Configuration, refused
from .environment import environment_variables
from .errors import VirtualNpuError
from .forked_ranks import devices_of_machine
from .installation import find_package, refuse_real_cann, require_matching_packages
from .libraries import LIBRARIES, cann_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE_ERROR = 2
_RANKS = "--ranks"


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments as this command reports everything that is wrong."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        text = f"{message}\nhint: {self.prog} --help"
        raise VirtualNpuError(text)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(prog="vnpu", description="Run the real torch_npu on a virtual NPU.")
    parser.add_argument("--version", action="version", version=f"vnpu {virtual_npu.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    choices = Parser(add_help=False)
    for declared in fields(Configuration):
        choices.add_argument(
            f"--{declared.name}",
            metavar=declared.metadata["metavar"],
            help=f"{declared.metadata['help']} ({declared.metadata['variable']})".replace("%", "%%"),
        )
    choices.add_argument("--despite-cann", action="store_true", help="take the place of a real CANN, if there is one")

    run = commands.add_parser("run", parents=[choices], help="run a program on the virtual NPU",
                              usage="vnpu run [options] [--] program [arguments ...]")  # fmt: skip
    run.add_argument(
        _RANKS,
        metavar="N",
        help="be a job of N ranks: python FILE runs N times, forked from one process that has imported torch",
    )
    run.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    commands.add_parser("env", parents=[choices], help='print the environment for a shell: eval "$(vnpu env)"')
    commands.add_parser("info", parents=[choices], help="say what is installed, and how it is configured")
    return parser.parse_args(arguments)


def choose(options: argparse.Namespace) -> Configuration:
    """Combine the options with the environment."""
    return Configuration.choose(vars(options), os.environ, lambda name: f"--{name}")


def ranks_program(count: str, program: list[str]) -> list[str]:
    """Return the command line that runs a Python program as so many ranks, also behind a tool that starts it."""
    if not re.fullmatch(r"[1-9]\d{0,2}", count) or int(count) > MOST_DEVICES:
        raise refused(_RANKS, count, f"a number from 1 to {MOST_DEVICES}, a device for each rank")
    python = next((place for place, word in enumerate(program) if re.fullmatch(r"python[\d.]*", Path(word).name)), -1)
    before, words = program[: python + 1], program[python + 1 :]
    if not before or not words or words[0].startswith("-"):
        raise refused(_RANKS, shlex.join(program), "python FILE [arguments ...]", "torchrun starts anything else")
    return [*before, "-m", "virtual_npu.forked_ranks", count, *words]


def run(options: argparse.Namespace) -> NoReturn:
    """Become the program."""
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        message = "run: no program given\nhint: vnpu run -- python train.py"
        raise VirtualNpuError(message)
    if options.ranks is not None:
        program = ranks_program(options.ranks, program)
    executable = shutil.which(program[0])
    if executable is None:
        message = f"run: '{program[0]}' is not a program that can be found and executed"
        raise VirtualNpuError(message)
    configuration = choose(options)
    if options.ranks is not None:
        of_machine = devices_of_machine(int(options.ranks), configuration.devices)
        configuration = replace(configuration, devices=of_machine)
    variables = environment_variables(configuration, despite_cann=options.despite_cann)
    sys.stdout.flush()
    os.execve(executable, program, {**os.environ, **variables})  # noqa: S606  # running it is what was asked for


def print_environment(options: argparse.Namespace) -> None:
    """Print one ``export`` for each variable."""
    for name, value in environment_variables(choose(options), despite_cann=options.despite_cann).items():
        print(f"export {name}={shlex.quote(value)}")


def kernels_state() -> str:
    """Say whether the kernels for the installed torch are compiled."""
    torch = find_package("torch")
    if torch is None:
        return "torch is not installed"
    library = library_path(torch, find_compiler(os.environ), cache_folder(os.environ))
    return str(library) if library.exists() else "not compiled yet; that happens at the first run with compute=cpu"


def described(describe: object) -> str:
    """Return the result of a call as text; an error is worth a line too."""
    try:
        return str(describe())  # type: ignore[operator]
    except VirtualNpuError as error:
        return str(error).replace("\n", "; ")


def print_information(options: argparse.Namespace) -> None:
    """Print what is installed and what would be in force."""
    configuration = choose(options)
    torch, torch_npu = find_package("torch"), find_package("torch_npu")

    def match() -> str:
        require_matching_packages()
        return "yes"

    def real_cann() -> str:
        refuse_real_cann(os.environ)
        return "none here"

    rows = {
        "vnpu": virtual_npu.__version__,
        "emulated CANN": described(cann_folder),
        "libraries": ", ".join(LIBRARIES),
        "torch": torch.version if torch else "not installed",
        "torch_npu": torch_npu.version if torch_npu else "not installed",
        "torch and torch_npu match": described(match),
        "real CANN": described(real_cann),
        "compiled kernels": described(kernels_state),
        **configuration.variables(),
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; wrong input ends with status 2, with nothing started."""
    try:
        options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        {"run": run, "env": print_environment, "info": print_information}[options.command](options)
    except VirtualNpuError as error:
        first, *others = str(error).splitlines()
        print("\n".join([f"vnpu: {first}", *others]), file=sys.stderr)
        raise SystemExit(USAGE_ERROR) from None
