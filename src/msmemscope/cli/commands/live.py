"""`msmemscope live PID|DIR`: what a program that runs has in use now."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from msmemscope.live.followed_capture import FollowedCapture

_PACKAGE: Final = "textual"
_EXAMPLE: Final = "msmemscope live 4242"
_INTERVAL: Final = "--interval"
_DEFAULT_INTERVAL: Final = "1"
_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 3600.0
_SECONDS: Final = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,3})?")
_SITES: Final = 10
_POLITENESS: Final = 10
"""Steps by which every other process has precedence: where all processors are busy, the program comes first."""


class LiveCommand:
    """Show what a running program has in use: pools, owners, call sites, growth.

    PID is an observed process, or one that has started some; DIR is a capture
    folder (msmemscope_*_ascend) or a folder of several. Without either: the
    latest run. The program is not touched: its event log is read as it grows.
    Without a terminal, one plain snapshot is printed. The screen needs
    `pip install 'msmemscope[live]'`.
    """

    name = "live"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("what", metavar="PID|DIR", nargs="?", help="a process or a folder; default: the latest run")
        parser.add_argument(
            _INTERVAL,
            metavar="SECONDS",
            default=_DEFAULT_INTERVAL,
            help=f"time between two looks; default: {_DEFAULT_INTERVAL}",
        )
        parser.add_argument("--once", action="store_true", help="print one snapshot and end")
        parser.add_argument("--json", action="store_true", help="with --once: as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Follow the processes until the user ends it, or look at them once."""
        interval_s = _seconds(arguments.interval)
        is_once = arguments.once or not (sys.stdout.isatty() and sys.stdin.isatty())
        if arguments.json and not is_once:
            message = "stands beside --once"
            raise UsageError(message, option="--json", hint="msmemscope live --once --json PID")
        if not is_once:
            _check_package()
            os.nice(_POLITENESS)
        if "polars" not in sys.modules:
            # Tables of live blocks are small: a thread for each processor would only be in the way of the program.
            os.environ.setdefault("POLARS_MAX_THREADS", "1")
        captures = _worth_watching(_followed(arguments.what))
        if is_once:
            return _show_once(captures, as_json=arguments.json)
        from msmemscope.live.screen import LiveApp

        app = LiveApp(captures, len(captures) - 1, interval_s)
        app.run()
        if app.fault is not None:
            raise app.fault
        return 0


def _show_once(captures: Sequence[FollowedCapture], *, as_json: bool) -> int:
    from msmemscope.launch import messages
    from msmemscope.launch.input_notes import note_foreign_owner
    from msmemscope.live.snapshot_text import render_snapshot

    snapshots = []
    for capture in captures:
        capture.refresh()
        snapshots.append(capture.now())
        note_foreign_owner(capture.directory)
    if as_json:
        content = {"verb": LiveCommand.name, "processes": [dataclasses.asdict(found) for found in snapshots]}
        sys.stdout.write(f"{json.dumps(content, ensure_ascii=False, indent=2)}\n")
        return 0
    for number, found in enumerate(snapshots):
        if number:
            sys.stdout.write("\n")
        render_snapshot(found, sys.stdout, site_count=_SITES)
    if not sys.stdout.isatty():
        messages.note("this is one snapshot; in a terminal, msmemscope live follows the program")
    return 0


def _followed(given: str | None) -> list[FollowedCapture]:
    """Return the captures that are named.

    Raises:
        UsageError: There is none, or none that can be read.
    """
    from msmemscope.cli.chosen_input import chosen_input
    from msmemscope.live.capture_choice import ACCEPTED, WHAT, checked_captures

    if given == "":
        message = "names nothing"
        raise UsageError(message, option=WHAT, value="", accepted=ACCEPTED)
    folders = checked_captures(*chosen_input(given))
    from msmemscope.errors import EventLogError
    from msmemscope.launch import messages
    from msmemscope.live.followed_capture import FollowedCapture

    captures, failures = [], []
    for folder in folders:
        try:
            capture = FollowedCapture(folder)
        except EventLogError as error:
            failures.append(error)
            continue
        captures.append(capture)
    if not captures:
        raise failures[0]
    for failure in failures:
        messages.warning(failure.message, failure.hint)
    return captures


def _worth_watching(captures: list[FollowedCapture]) -> list[FollowedCapture]:
    """Return the captures whose program runs, if any does: beside them nobody looks for ended ones."""
    return [capture for capture in captures if capture.is_alive] or captures


def _seconds(given: str) -> float:
    """Return the time between two looks.

    Raises:
        UsageError: It is none, or too short or long.
    """
    if not _SECONDS.fullmatch(given) or not _SHORTEST_S <= float(given) <= _LONGEST_S:
        message = "must be a number of seconds"
        raise UsageError(message, option=_INTERVAL, value=given, accepted=f"{_SHORTEST_S:g} to {_LONGEST_S:g}")
    return float(given)


def _check_package() -> None:
    """Refuse to begin without what the screen is made with.

    Raises:
        UsageError: It is not installed.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        message = (
            f"the screen of msmemscope live needs the package {_PACKAGE}, which is not installed for {sys.executable}"
        )
        raise UsageError(message, hint="pip install 'msmemscope[live]'; or --once, for one snapshot without it")
