"""`msmemscope tree PATH`: the call tree of bytes."""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, describe_verb
from msmemscope.cli.each_process import chosen_number, chosen_word, show_processes
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    import argparse

# Trees bring what they are made with, which the other verbs need not wait for: they are imported when this verb is chosen.

_OF: Final = "--of"
_DEPTH: Final = "--depth"
_LEAST: Final = "--least"
_DEFAULT_LEAST: Final = "1"
_DEEPEST: Final = 1_000_000
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%?", re.ASCII)
_WHOLE: Final = 100
_EXAMPLE: Final = "msmemscope tree memscopeDumpResults --of=leaked --least=5"


class TreeCommand:
    """Show which calls memory is from: the call tree, the outermost frame first.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump
    (CSV or DB), or a memory snapshot of torch. Without it, the latest run is taken.

    The lines below a line add up to it. Branches that are too small or too deep are
    folded into one line with their number and sum.
    """

    name = "tree"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument(
            _OF,
            metavar="MEASURE",
            default="peak",
            help="peak: in use at the peak of the pool (default); leaked: see analyze leaks; allocated: all blocks; "
            "byte-seconds: bytes times seconds in use",
        )
        parser.add_argument(_DEPTH, metavar="N", help="show so many frames of a path; default: all")
        parser.add_argument(
            _LEAST,
            metavar="PERCENT",
            default=_DEFAULT_LEAST,
            help=f"fold branches with less of the pool; default: {_DEFAULT_LEAST}",
        )
        parser.add_argument(
            "--all-frames", action="store_true", help="show frames of PyTorch and of Python's library, too"
        )
        parser.add_argument("--json", action="store_true", help="write the lines to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Show the tree of each process."""
        from msmemscope.analysis.weights.call_tree import call_tree
        from msmemscope.analysis.weights.measures import Measure
        from msmemscope.reports.call_tree_report import render_call_tree

        words = [one.value for one in Measure]
        measure = Measure(chosen_word(arguments.of, words, _OF, reason="is nothing that calls are weighted by"))
        depth = None
        if arguments.depth is not None:
            depth = chosen_number(arguments.depth, _DEPTH, least=1, most=_DEEPEST, of="frames")
        least_share = _share(arguments.least)
        return show_processes(
            arguments.path,
            self.name,
            functools.partial(
                call_tree, measure=measure, depth=depth, least_share=least_share, all_frames=arguments.all_frames
            ),
            functools.partial(render_call_tree, out=sys.stdout),
            as_json=arguments.json,
            following="view",
        )


def _share(given: str) -> float:
    match = _PERCENT.fullmatch(given)
    if match is None or float(match[1]) > _WHOLE:
        message = "must be a share in percent"
        raise UsageError(message, option=_LEAST, value=given, accepted="0 to 100, such as 0.5")
    return float(match[1]) / _WHOLE
