"""`msmemscope advise PATH`: which settings of the allocator would need less memory."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, describe_verb
from msmemscope.cli.each_process import show_processes

if TYPE_CHECKING:
    import argparse

# The model and its columns are imported when this verb is chosen.

_RECORDED: Final = "--recorded"
_CAPACITY: Final = "--capacity"
_EXAMPLE: Final = "msmemscope advise snapshot.pickle --capacity=32GiB"


class AdviseCommand:
    """Try settings of the caching allocator, and leaks withdrawn, on the recording.

    Shows how many bytes of reserved memory each change gains at the peak, whether the
    job would have fit, and the line to copy. Memory that is reserved and idle follows,
    with its cause. PATH is a memory snapshot of torch (the most exact), a capture folder,
    a folder of several, or a dump. Without it, the latest run is taken.
    """

    name = "advise"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument(
            _CAPACITY, metavar="SIZE", help="memory of the device for the allocator (64GiB): says whether the job fits"
        )
        parser.add_argument(
            _RECORDED,
            metavar="KEY=VALUE,...",
            help="settings that the recording was made with and does not show",
        )
        parser.add_argument("--json", action="store_true", help="write it to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Try the changes on each process."""
        from msmemscope.analysis.replay.replayed_recording import ReplayOptions
        from msmemscope.analysis.reserved.whole_advice import advise_whole
        from msmemscope.reports.replay_report import render_advice
        from msmemscope.units import parse_size_bytes

        capacity = None if arguments.capacity is None else parse_size_bytes(arguments.capacity, option=_CAPACITY)
        options = ReplayOptions("", arguments.recorded, capacity)
        return show_processes(
            arguments.path,
            self.name,
            functools.partial(advise_whole, options=options),
            functools.partial(render_advice, out=sys.stdout),
            as_json=arguments.json,
            following="replay",
        )
