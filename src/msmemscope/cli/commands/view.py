"""`msmemscope view PATH...`: what was recorded in the browser, however long it is."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import webbrowser
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, chosen_input, describe_verb
from msmemscope.cli.each_process import chosen_number
from msmemscope.errors import MsmemscopeError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_NEEDED: Final = ("starlette", "uvicorn")
_EXAMPLE: Final = "msmemscope view memscopeDumpResults"
_MOST_PORTS: Final = 65_535


class ViewCommand:
    """Show what was recorded in the browser: curves, blocks, stacks, pools, tables.

    Several recordings can be compared with each other. A local server answers
    the page, and nobody else: its address has a secret in it. It writes
    nothing but an index of each recording, in the folder of the user's cache.
    Ctrl+C ends it. Needs `pip install 'msmemscope[view]'`.
    """

    name = "view"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser, several=True)
        parser.add_argument("--port", metavar="PORT", default="0", help="of the address; default: one that is free")
        parser.add_argument("--no-browser", action="store_true", help="only print the address")

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve until the user ends it."""
        _check_packages()
        port = chosen_number(arguments.port, "--port", least=0, most=_MOST_PORTS, of="a port")
        paths = [path for given in arguments.paths or [None] for path in _inputs(given)]
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.launch import messages
        from msmemscope.view.opened import open_processes

        failures: list[MsmemscopeError] = []
        with _shown_progress() as progress:
            processes = open_processes(paths, failures, progress)
        if not processes:
            raise failures[0]
        for failure in failures:
            messages.warning(failure.message, failure.hint)
        from msmemscope.view.server import Viewer

        viewer = Viewer(processes, port)

        def is_ready() -> None:
            sys.stdout.write(f"{viewer.address}\n")
            sys.stdout.flush()
            messages.note("Ctrl+C ends it")
            if len(arguments.paths) <= 1:  # a report is about one of them
                name_next_command("report", arguments.paths)
            if not arguments.no_browser and not webbrowser.open(viewer.address):
                messages.warning("no browser could be started", hint="open the address in one")

        viewer.serve(is_ready)
        return 0


def _inputs(given: str | None) -> Sequence[Path]:
    path, folders = chosen_input(given)
    return folders or [path]


def _check_packages() -> None:
    """Refuse to begin without the server.

    Raises:
        UsageError: Its packages are not installed.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        message = f"msmemscope view needs {' and '.join(missing)}, not installed for {sys.executable}"
        raise UsageError(message, hint="pip install 'msmemscope[view]'")


@contextlib.contextmanager
def _shown_progress() -> Iterator[Callable[[str, float], None]]:
    """On a terminal, a bar says how far the work is."""
    if not sys.stderr.isatty():
        yield lambda _what, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("Index: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)
