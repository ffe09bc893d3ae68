"""`msmemscope replay PATH`: the recorded allocations under other settings of the allocator."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, describe_verb
from msmemscope.cli.each_process import show_processes

if TYPE_CHECKING:
    import argparse

# The model and its columns are imported when this verb is chosen.

_SET: Final = "--set"
_RECORDED: Final = "--recorded"
_CAPACITY: Final = "--capacity"
_EXAMPLE: Final = "msmemscope replay snapshot.pickle --set expandable_segments=True --capacity=32GiB"


class ReplayCommand:
    """Replay the recorded allocations through a model of the caching allocator.

    Shows what would have been reserved under other settings, and whether memory
    would have run out. PATH is a memory snapshot of torch (the most exact), a
    capture folder, a folder of several, or a dump; without it, the latest run.
    """

    name = "replay"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument(
            _SET,
            metavar="KEY=VALUE,...",
            default="",
            help="settings of the allocator, as PYTORCH_NPU_ALLOC_CONF has them; default: those of the recording",
        )
        parser.add_argument(
            _RECORDED,
            metavar="KEY=VALUE,...",
            help="settings that the recording was made with and does not show",
        )
        parser.add_argument(
            _CAPACITY, metavar="SIZE", help="memory of the device for the allocator (64GiB); default: no limit"
        )
        parser.add_argument("--json", action="store_true", help="write it to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Replay what was recorded of each process."""
        from msmemscope.analysis.replay.replayed_recording import ReplayOptions, replay_recording
        from msmemscope.reports.replay_report import render_replay
        from msmemscope.units import parse_size_bytes

        capacity = None if arguments.capacity is None else parse_size_bytes(arguments.capacity, option=_CAPACITY)
        options = ReplayOptions(arguments.set, arguments.recorded, capacity)
        return show_processes(
            arguments.path,
            self.name,
            functools.partial(replay_recording, options=options),
            functools.partial(render_replay, out=sys.stdout),
            as_json=arguments.json,
            following="advise",
        )
