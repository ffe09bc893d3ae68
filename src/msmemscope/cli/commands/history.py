"""`msmemscope history PID|DIR`: keep what running programs have in use, hour by hour."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.errors import EXIT_STATUS_FAILURE, MsmemscopeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from msmemscope.live.history_moments import HistoryKeeper

_EXAMPLE: Final = "msmemscope history memscopeDumpResults --every=1h"
_EVERY: Final = "--every"
_DEFAULT_EVERY: Final = "1h"
_LOOK_S: Final = 10.0
"""Seconds between two looks at whether any program still runs."""
_POLITENESS: Final = 19
"""Steps by which every other process has precedence: where all processors are busy, the program comes first."""
_FIRST_TO_GO: Final = "1000"
"""Where memory runs out, the kernel ends this process before the program."""


class HistoryCommand:
    """Keep what running programs have in use, every hour, beside their event logs.

    PID is an observed process, or one that has started some. DIR is a capture
    folder (msmemscope_*_ascend) or a folder of several; new ones in it are found,
    also if it is empty at first. Without either: the latest run. The programs
    are not touched. With --max-size a run keeps its newest events alone: the
    history stays, and `msmemscope analyze history DIR` says what grew. The
    launcher does this by itself then (--history). Ends when all programs have
    ended, or at Ctrl-C.
    """

    name = "history"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument(
            "what", metavar="PID|DIR", nargs="*", help="processes or folders; default: those of the latest run"
        )
        parser.add_argument(
            _EVERY,
            metavar="TIME",
            default=_DEFAULT_EVERY,
            help=f"the time between two moments: 30s, 10min, 1h, 1d; default: {_DEFAULT_EVERY}",
        )
        parser.add_argument("--once", action="store_true", help="keep one moment and end")

    def run(self, arguments: argparse.Namespace) -> int:
        """Keep moments until all programs have ended, or one."""
        from msmemscope.configuration.history_interval import ACCEPTED_TIMES, parse_interval
        from msmemscope.launch import messages

        every_s = parse_interval(ACCEPTED_TIMES, _EVERY, arguments.every)
        _give_way()
        captures = _NamedCaptures(arguments.what)
        captures.check(is_once=arguments.once)
        from msmemscope.live.history_moments import HistoryKeeper

        keeper = HistoryKeeper(captures)
        if arguments.once:
            failures = keeper.take()
            for failure in failures:
                messages.warning(failure.message, failure.hint)
            return EXIT_STATUS_FAILURE if failures else 0
        yet = "" if captures() else ", which has no capture yet,"
        messages.note(f"history of {' and '.join(arguments.what) or 'the latest run'}{yet} every {arguments.every}")
        with contextlib.suppress(KeyboardInterrupt):
            _keep(keeper, captures, every_s)
        return 0


def _keep(keeper: HistoryKeeper, captures: _NamedCaptures, every_s: float) -> None:
    """Take moments until no program runs any more."""
    from msmemscope.launch import messages

    said: set[str] = set()
    is_running = True
    while is_running:
        due_s = time.monotonic() + every_s
        for failure in keeper.take():
            if failure.message not in said:  # once, not every hour
                said.add(failure.message)
                messages.warning(failure.message, failure.hint)
        while (is_running := keeper.has_running() or not captures()) and time.monotonic() < due_s:
            time.sleep(min(max(due_s - time.monotonic(), 0), _LOOK_S))
    keeper.take()  # a last one of those that were killed


class _NamedCaptures:
    """The captures that a command line names: those that there were, and those that have come.

    Args:
        given: PIDs and folders; none for the latest run.
    """

    def __init__(self, given: Sequence[str]) -> None:
        self._given: tuple[str | None, ...] = tuple(given) or (None,)
        self._found: dict[Path, None] = {}
        self._failures: list[MsmemscopeError] = []

    def __call__(self) -> list[Path]:
        """The folders of all that were found until now."""
        from msmemscope.cli.chosen_input import chosen_input
        from msmemscope.live.capture_choice import checked_captures

        self._failures = []
        # The latest run is looked for once: afterwards another one may be.
        for one in () if self._found and self._given == (None,) else self._given:
            try:
                self._found.update(dict.fromkeys(checked_captures(*chosen_input(one))))
            except MsmemscopeError as error:  # noqa: PERF203 - reads folders
                self._failures.append(error)  # a process that has ended names nothing any more
        return list(self._found)

    def check(self, *, is_once: bool) -> None:
        """Refuse names that mean nothing now, and will not.

        Args:
            is_once: Whether captures that come later are of no use.

        Raises:
            MsmemscopeError: There is no capture, and no folder for some.
        """
        is_awaited = not is_once and any(one is not None and Path(one).is_dir() for one in self._given)
        if not self() and not is_awaited:
            raise self._failures[0]


def _give_way() -> None:
    """Let the programs go first: in time, and where memory runs out."""
    with contextlib.suppress(OSError):
        os.nice(_POLITENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    if "polars" not in sys.modules:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
