"""`msmemscope attach PID`: record a program that runs already, for a while."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError

if TYPE_CHECKING:
    import argparse

_EXAMPLE: Final = "msmemscope attach 4242 --for=60s"
_FOR: Final = "--for"
_STEPS: Final = "--steps"
_TIME: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|min|h)?")
_SECONDS: Final = {None: 1, "s": 1, "min": 60, "h": 3600}
_MOST_STEPS: Final = 1_000_000
_OPTIONS: Final = ("--output", "--level", "--events", "--call-stack", "--analysis", "--device")


class AttachCommand:
    """Record a Python program that runs already, and let it go again.

    The program needs no preparation. One of its threads stands still for some
    milliseconds and loads a small library; it goes on as before. Tensors are
    followed from then on, and those that are alive already are known. Ctrl-C ends
    the recording; the program runs on. Other host memory is seen in programs
    that were started under msmemscope only.
    """

    name = "attach"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("process", metavar="PID", help="the number of a Python process of yours")
        parser.add_argument(
            _FOR, metavar="TIME", dest="time", help="how long: 30s, 5min, 1h; default: until Ctrl-C, or --steps"
        )
        parser.add_argument(_STEPS, metavar="N", help="end it when so many steps have ended")
        for spelling in _OPTIONS:
            option = OPTION_BY_SPELLING[spelling]
            parser.add_argument(
                spelling,
                *option.other_spellings,
                metavar=option.metavar,
                help=f"as for a run: {option.accepted}",
            )

    def run(self, arguments: argparse.Namespace) -> int:
        """Attach, wait, detach, and show what was recorded."""
        seconds = _seconds(arguments.time)
        steps = _whole_number(arguments.steps)
        values = {spelling: getattr(arguments, spelling[2:].replace("-", "_")) for spelling in _OPTIONS}
        given = {spelling: value for spelling, value in values.items() if value is not None}
        with_options(Config(), [GivenOption(OPTION_BY_SPELLING[one], one, value) for one, value in given.items()])
        from msmemscope.launch import messages
        from msmemscope.launch.attaching.attach import record_for_a_while
        from msmemscope.launch.attaching.target_process import target_process

        target = target_process(arguments.process)
        settings = {spelling[2:].replace("-", "_"): value for spelling, value in given.items()}
        recorded = record_for_a_while(target, settings, seconds=seconds, steps=steps)
        messages.note(
            f"detached from process {target.process_id}; a thread of it stood still for "
            f"{recorded.paused_seconds * 1000:.1f} ms"
        )
        if recorded.directory is None:
            messages.warning("nothing was recorded", "it has allocated no tensor meanwhile; --for gives it more time")
            return EXIT_STATUS_FAILURE
        from msmemscope.launch.captures import open_captures
        from msmemscope.launch.finish import finish
        from msmemscope.reports.run_summary import RunSummary
        from msmemscope.reports.terminal import render_run

        finished = finish(open_captures([recorded.directory]), {})
        render_run(
            RunSummary(processes=finished.processes, recover_command=f"msmemscope recover {recorded.directory}"),
            sys.stderr,
        )
        return 0


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if seconds <= 0:
        message = "is no length of time"
        raise UsageError(message, option=_FOR, value=text, accepted="a number with s, min or h, such as 60s")
    return seconds


def _whole_number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= _MOST_STEPS:
        message = "is no number of steps"
        raise UsageError(message, option=_STEPS, value=text, accepted="a whole number from 1 on")
    return int(text)
