"""`msmemscope stats PATH`: the numbers of what was recorded, at a glance."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, describe_verb
from msmemscope.cli.each_process import show_processes

if TYPE_CHECKING:
    import argparse

    from msmemscope.analysis.weights.numbers import ProcessNumbers
    from msmemscope.recording import Recording

# Numbers bring what they are made with, which the other verbs need not wait for: they are imported when this verb is chosen.

_EXAMPLE: Final = "msmemscope stats memscopeDumpResults"


class StatsCommand:
    """Show the numbers of what was recorded: events, steps, blocks of each pool.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump
    (CSV or DB), or a memory snapshot of torch. Without it, the latest run is taken.
    """

    name = "stats"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument("--json", action="store_true", help="write them to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Count what is there of each process."""
        from msmemscope.reports.numbers_report import render_numbers

        render = functools.partial(render_numbers, out=sys.stdout)
        return show_processes(arguments.path, self.name, _numbers, render, as_json=arguments.json, following="top")


def _numbers(recording: Recording) -> ProcessNumbers:
    from msmemscope.analysis.weights.numbers import count_process
    from msmemscope.launch.captures import program_text

    facts = recording.facts
    return count_process(recording, program_text(facts.get("argument", ()), facts.get("executable", ())))
